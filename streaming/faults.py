"""Fault points between the numbered steps, for the crash tests.

A test sets SEQUENCER_FAULT to "<point>:<file>"; the first process that reaches the point creates
the file and kills its whole process group. Without the variable this does nothing.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

POINTS = ("1-2", "2-3", "3-init", "3-progress", "3-4", "4-sent", "4-5", "5-6")


def fault_point(point: str) -> None:
    """Die here if a test asked for it and nobody has died here yet."""
    wanted = os.environ.get("SEQUENCER_FAULT")
    if not wanted:
        return
    name, _, marker = wanted.partition(":")
    if name != point:
        return
    try:
        Path(marker).touch(exist_ok=False)
    except FileExistsError:
        return
    os.killpg(int(os.environ["SEQUENCER_FAULT_GROUP"]), signal.SIGKILL)
