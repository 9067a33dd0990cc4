"""Fault points between the numbered steps of `streaming.sink.sink`, for the crash tests.

A test sets SEQUENCER_FAULT to "<point>:<file>", several with commas between them; the first process
that reaches a point creates its file and kills the service's process group, as kill -9 would. Where
the variable is set for workers only, it kills itself alone. Without the variable, nothing.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

POINTS = ("1-2", "2-3", "3-init", "3-progress", "3-4", "4-sent", "4-5", "5-6")
PART_POINTS = ("3-part", "part-sent", "part-3")
"""Only in batches that are written in several transactions: around the commit of one that is not
the last."""
REFUSED_POINTS = ("refused", "refused-kept")
"""Only in batches with records that Kafka refuses for good: around the note of which they are."""
ANSWER_POINTS = ("5-answers", "answers-6")
"""Only in batches with commands that concern all shards."""
RESEND_POINTS = ("resend-sent", "resend-noted", "resend-committed")
"""In `sequencer resend`: around the two halves of a transaction, and behind it."""

RESCALE_POINTS = ("rescale-begun", "rescale-written", "rescale-whole", "rescale-closed")
"""In `sequencer rescale`: as the steps in `streaming.service.rescale` end."""


def arm() -> None:
    """Remember the service's process group for its workers, which Spark puts into another."""
    if "SEQUENCER_FAULT" in os.environ:
        os.environ["SEQUENCER_FAULT_GROUP"] = str(os.getpgrp())


def wants(name: str) -> bool:
    """Return whether a test asked for a behaviour that is no crash ("unlocked")."""
    return os.environ.get("SEQUENCER_FAULT") == name


def crash_point(point: str) -> None:
    """Die here if a test asked for it and nobody has died here yet."""
    for fault in os.environ.get("SEQUENCER_FAULT", "").split(","):
        name, _, marker = fault.partition(":")
        if name == point:
            _die_once(Path(marker))


def _die_once(marker: Path) -> None:
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return
    if "SEQUENCER_FAULT_GROUP" in os.environ:
        os.killpg(int(os.environ["SEQUENCER_FAULT_GROUP"]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)  # a worker is in a group of its own
