"""Files of a checkpoint, by kind, and what can become of one."""

KINDS = {
    "offsets": "offsets/[0-9]*",
    "commits": "commits/[0-9]*",
    "state": "state/0/0/*",
    "metadata": "metadata",
    "held": "held/*/*",
    "identity": "identity.json",
    "decisions": "decisions.json",
    "status": "status.json",
    "waiting": "waiting.json",
}
FIGURES = ("status", "waiting")
"""Nothing rests on them."""


def newest(folder, pattern):
    """The newest file of a kind, None where there is none."""
    found = [path for path in folder.glob(pattern) if path.is_file()]
    return max(found, key=lambda path: (path.stat().st_mtime_ns, path.name), default=None)


def tear(path):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def empty(path):
    path.write_bytes(b"")


def remove(path):
    path.unlink()


DAMAGES = {"torn": tear, "emptied": empty, "removed": remove}
