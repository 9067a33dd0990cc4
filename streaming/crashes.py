"""Fault points between the numbered steps of `streaming.sink.sink`, for the crash tests.

A test sets SEQUENCER_FAULT to "<point>:<file>"; the first process that reaches the point creates
the file and kills the service's process group, as kill -9 would. Without the variable, nothing.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

POINTS = ("1-2", "2-3", "3-init", "3-progress", "3-4", "4-sent", "4-5", "5-6")
ANSWER_POINTS = ("5-answers", "answers-6")
"""Only in batches with commands that concern all shards."""


def arm() -> None:
    """Remember the service's process group for its workers, which Spark puts into another."""
    if "SEQUENCER_FAULT" in os.environ:
        os.environ["SEQUENCER_FAULT_GROUP"] = str(os.getpgrp())


def wants(name: str) -> bool:
    """Whether a test asked for a behaviour that is no crash ("unlocked")."""
    return os.environ.get("SEQUENCER_FAULT") == name


def crash_point(point: str) -> None:
    """Die here if a test asked for it and nobody has died here yet."""
    name, _, marker = os.environ.get("SEQUENCER_FAULT", "").partition(":")
    if name != point:
        return
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return
    os.killpg(int(os.environ["SEQUENCER_FAULT_GROUP"]), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)  # a worker is in a group of its own
