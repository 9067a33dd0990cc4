"""Files of held records on a disk that has for certain what was synced."""

from __future__ import annotations

LOST_SHARE = 0.5


class Disk:
    """The files of held records, and which of them are on the disk. Content is known by itself."""

    def __init__(self, folder):
        self.folder = folder
        self.contents, self.names = set(), {}

    def files(self):
        """All files that are whole, with their content."""
        found = sorted(self.folder.glob("held/*/*"))
        return {path: path.read_bytes() for path in found if not path.suffix}

    def sync(self, path):
        """A file's content, or a folder's names."""
        if path.is_dir():
            self.names[path] = {each.name: each.read_bytes() for each in path.glob("*-*")}
        else:
            self.contents.add(path.read_bytes())

    def cut_power(self, rng):
        """Lose contents and names, and names' removals."""
        for path, content in self.files().items():
            known = self.names.get(path.parent, {})
            if path.name not in known and rng.random() < LOST_SHARE:
                path.unlink()
            elif content not in self.contents and rng.random() < LOST_SHARE:
                path.write_bytes(b"")
        for folder, known in sorted(self.names.items()):
            for name, content in sorted(known.items()):
                path = folder / name
                if not path.suffix and not path.exists() and rng.random() < LOST_SHARE:
                    path.write_bytes(content)

    def put_back(self, files):
        """Have these files, and no others."""
        for path in self.files():
            path.unlink()
        for path, content in files.items():
            path.write_bytes(content)
