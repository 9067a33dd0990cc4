"""Memory and CPU of a process and all that it started (Linux), read while it runs."""

import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

EVERY_SECONDS = 2.0
"""A look at the memory of large processes costs some 50 ms of a core."""
TICKS = os.sysconf("SC_CLK_TCK")


def session_processes(session):
    """Ids of the processes of a session (started with `start_new_session`)."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            fields = stat(entry.name)
            if fields and int(fields[3]) == session:
                yield int(entry.name)


def stat(process):
    """The fields of /proc/…/stat after the name, none where the process is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def core_seconds(process):
    """What a process took of a core so far; 0 for one that is gone."""
    fields = stat(process)
    return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0


def kind_of(process):
    try:
        name = Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        name = ""
    return "jvm" if name == "java" else "python"


def resident(session):
    """MiB that the session's processes have, by kind: pages that several share are counted once."""
    sizes = {"jvm": 0.0, "python": 0.0}
    for process in session_processes(session):
        try:
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
            kib = sum(
                int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")
            )
            sizes[kind_of(process)] += kib / 1024
        except OSError:
            continue
    return sizes


class Watch:
    """What the processes of a session took, and a broker beside them.

    `memory` is the highest, in MiB by kind, and of all; `spent` says what the CPU did meanwhile.
    """

    def __init__(self, broker):
        self.memory = {"jvm": 0.0, "python": 0.0, "all": 0.0}
        self._broker = broker
        self._last = {}  # seconds of a core by process, also of those that are gone
        self._kinds = {}
        self._turns = []

    def look(self, session):
        now = resident(session)
        now["all"] = sum(now.values())
        self.memory.update({kind: max(self.memory[kind], now[kind]) for kind in self.memory})
        for process in (*session_processes(session), *filter(None, [self._broker])):
            if seconds := core_seconds(process):
                self._last[process] = seconds
                self._kinds[process] = "broker" if process == self._broker else kind_of(process)
        spent = dict.fromkeys(("jvm", "python", "broker"), 0.0)
        for process, seconds in self._last.items():
            spent[self._kinds[process]] += seconds
        self._turns.append((time.time() * 1000, spent))

    def spent(self, begin_ms, end_ms):
        """Seconds of a core between two times of the clock, by kind."""
        times = [at for at, _ in self._turns]
        return {
            kind: float(
                np.diff(np.interp([begin_ms, end_ms], times, [t[kind] for _, t in self._turns]))[0]
            )
            for kind in ("jvm", "python", "broker")
        }


@contextmanager
def watched(session, broker):
    """A Watch of a session and of a broker's process, while the block runs."""
    watch = Watch(broker)
    stop = threading.Event()

    def run():
        while not stop.wait(EVERY_SECONDS):
            watch.look(session)

    watcher = threading.Thread(target=run, daemon=True)
    watcher.start()
    try:
        yield watch
    finally:
        stop.set()
        watcher.join()
