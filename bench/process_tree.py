"""Memory of a process and all that it started (Linux), read while it runs."""

import os
import threading
from contextlib import contextmanager
from pathlib import Path

EVERY_SECONDS = 2.0


def session_processes(session):
    """Ids of the processes of a session (started with `start_new_session`)."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                after_name = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(after_name[3]) == session:
                yield int(entry.name)


def resident(session):
    """MiB that the session's processes have, by kind: pages that several share are counted once."""
    found = {"jvm": 0.0, "python": 0.0}
    for number in session_processes(session):
        try:
            rollup = Path(f"/proc/{number}/smaps_rollup").read_text()
            name = Path(f"/proc/{number}/comm").read_text().strip()
        except OSError:
            continue
        kib = sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:"))
        found["jvm" if name == "java" else "python"] += kib / 1024
    return found


@contextmanager
def peak(session):
    """A dictionary that has the session's highest memory by kind, and of all, after the block."""
    most = {"jvm": 0.0, "python": 0.0, "all": 0.0}
    stop = threading.Event()

    def watch():
        while not stop.wait(EVERY_SECONDS):
            now = resident(session)
            now["all"] = sum(now.values())
            most.update({kind: max(most[kind], now[kind]) for kind in most})

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield most
    finally:
        stop.set()
        watcher.join()
