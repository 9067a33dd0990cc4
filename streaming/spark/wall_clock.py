"""Whether the host's wall clock was set back, seen by the monotonic one.

Spark begins a batch when the wall clock has reached its time. Where that is set back, it waits
until the clock is there again: an hour for an hour.
"""

from __future__ import annotations

import time

SECONDS_MAX = 1.0
"""What a query may wait longer for, and what corrections come to that are none of ours."""


class WallClock:
    """Compares the two clocks, from one call of :meth:`set_back` to the next."""

    def __init__(self) -> None:
        self._ahead_min, _ = _ahead()

    def set_back(self) -> float:
        """Return by how many seconds at least it was set back since the last call; 0.0: by none."""
        before = self._ahead_min
        self._ahead_min, ahead_max = _ahead()
        seconds = before - ahead_max
        return seconds if seconds > SECONDS_MAX else 0.0


def _ahead() -> tuple[float, float]:
    """Return by how much the wall clock is ahead, at least and at most.

    A process may stand still between two looks at clocks.
    """
    first = time.monotonic()
    now = time.time()
    return now - time.monotonic(), now - first
