"""Progress marks in a history: who writes them, and whether they are true."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from streaming.service import marks
from streaming.verify.faults import Verdict
from streaming.verify.marks import Marks
from streaming.verify.origins import of_channel, of_group, of_multicast
from tests.simulated.world import current, wait

PROGRESS = "progress"
"""Their topic."""
NAMING = {"channel": of_channel, "group": of_group, "multicast": of_multicast}


def mark_faults(history, records):
    """What `sequencer verify` finds of progress marks."""
    plan = history.pipeline.plan
    found = Marks(
        plan.headers.prefix, NAMING[plan.discipline], first=plan.delivery == "at-least-once"
    )
    found.read(records[PROGRESS], {place: log.end for place, log in history.kafka.logs.items()})
    for _ in found.taken(records["out"]):
        pass
    for _ in found.held_against(records["in"]):
        pass
    verdict = Verdict("p")
    found.finish(verdict)
    return [str(fault) for fault in verdict.faults]


class Event:
    """What stands in for `threading.Event`."""

    def __init__(self):
        self.is_set = False

    def set(self):
        """Set it."""
        self.is_set = True

    def wait(self, seconds):
        """Wait until it is set; whether it is."""
        process = current().process
        until = process.world.now + seconds
        while not self.is_set and process.world.now < until:
            wait(min(0.1, until - process.world.now))
        return self.is_set


class Thread:
    """What stands in for `threading.Thread`: a task of the process."""

    def __init__(self, *, target, **_more):
        self.target = target

    def start(self):
        """Start it."""
        self.task = current().process.start(self.target)

    def join(self, _seconds=None):
        """Wait until it has ended."""
        while not self.task.done:
            wait(0.1)


def replaced():
    """What is put in the place of threads, by its place."""
    assert marks.threading in (threading, THREADING)
    return {(marks, "threading"): THREADING}


THREADING = SimpleNamespace(Thread=Thread, Event=Event)
