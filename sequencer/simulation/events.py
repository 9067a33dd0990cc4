"""The clock of a simulation: what happens next, and then.

Times are whole microseconds from the start. Events of one moment happen in the order in which they
were planned, so a run depends on its seeds alone.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

Action = Callable[[], object]


class EndlessError(RuntimeError):
    """A simulation did more than it may; its state is as it was after the last event."""


@dataclass(slots=True)
class Events:
    """Planned actions. `events_max` limits those of a whole run."""

    events_max: int = 50_000_000
    now_us: int = 0
    happened: int = 0
    _planned: int = 0
    _heap: list[tuple[int, int, Action]] = field(default_factory=list)

    def after(self, wait_us: int, action: Action) -> None:
        """Plan an action; ValueError if it would lie in the past."""
        if wait_us < 0:
            raise ValueError(f"an event {-wait_us} us ago was not planned: give a later moment")
        heapq.heappush(self._heap, (self.now_us + wait_us, self._planned, action))
        self._planned += 1

    def run(self, until_us: int | None = None) -> bool:
        """All events up to a moment, or all there are; returns whether any are left."""
        while self._heap and (until_us is None or self._heap[0][0] <= until_us):
            if self.happened >= self.events_max:
                raise EndlessError(
                    f"{self.happened} events and no end at {self.now_us / 1e6:g} s: the run was "
                    "stopped; raise events_max, or look for messages that cause each other"
                )
            self.now_us, _, action = heapq.heappop(self._heap)
            self.happened += 1
            action()
        if until_us is not None and self._heap:
            self.now_us = until_us
        return bool(self._heap)
