"""Detection of a wall clock that was set back, by comparison with the monotonic clock.

Spark begins a batch when the wall clock reaches its time. After the clock is set back by an hour,
Spark waits for an hour.
"""

from __future__ import annotations

import time

SECONDS_MAX = 1.0
"""Smaller corrections are ignored: a query may wait this much longer."""


class WallClock:
    """Compares the two clocks, from one call of :meth:`set_back` to the next."""

    def __init__(self) -> None:
        self._ahead_min, _ = _ahead()

    def set_back(self) -> float:
        """Return the least number of seconds it was set back since the last call; 0.0: none."""
        before = self._ahead_min
        self._ahead_min, ahead_max = _ahead()
        seconds = before - ahead_max
        return seconds if seconds > SECONDS_MAX else 0.0


def _ahead() -> tuple[float, float]:
    """Return bounds of the wall clock's lead over the monotonic clock: at least and at most.

    A process may be paused between reading the two clocks.
    """
    first = time.monotonic()
    now = time.time()
    return now - time.monotonic(), now - first
