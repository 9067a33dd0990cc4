"""A service's processes, for tests that look at them or kill one."""

from contextlib import suppress
from itertools import chain
from pathlib import Path


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            return file.read().decode(errors="replace").replace("\0", " ")
    except OSError:
        return ""


def children(pid):
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):  # of each thread its own
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def descendants(pid):
    found = children(pid)
    for each in found:
        found += children(each)
    return found


def python_daemons(pid):
    """What the service's fork server forked; where that was killed, what imported for itself."""
    servers = [p for p in children(pid) if "streaming.spark.fork_server" in command_line(p)]
    if servers:
        return [each for server in servers for each in children(server)]
    return [p for p in descendants(pid) if "streaming.spark.worker_entry" in command_line(p)]


def python_workers(pid):
    return sorted(chain.from_iterable(map(children, python_daemons(pid))))
