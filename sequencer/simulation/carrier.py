"""What lies between two machines: it takes time, and it may lose, repeat and reorder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sequencer.simulation.events import Events

LOST = "lost"
DUPLICATED = "duplicated"
REORDERED = "reordered"
CUT = "lost on a cut line"


_MOST = {"cuts": 1000, "crashes": 1000, "late_ms": 10_000, "down_ms": 10_000, "commit_ms": 1000}


@dataclass(frozen=True, slots=True)
class Faults:
    """What goes wrong. `loss`, `duplicate` and `late` are probabilities, for each frame.

    A late frame takes up to `late_ms` longer, so that others overtake it. `cuts` lines between two
    machines and `crashes` machines fail for up to `down_ms`, at any moments. A machine writes its
    state down, and only then sends what follows from it, every `commit_ms`: what it did since then
    is gone after a crash.
    """

    loss: float = 0.0
    duplicate: float = 0.0
    late: float = 0.0
    late_ms: float = 100.0
    cuts: int = 0
    crashes: int = 0
    down_ms: float = 2000.0
    commit_ms: float = 0.0

    def __post_init__(self) -> None:
        for name in ("loss", "duplicate", "late"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}: give 0 or more, less than 1")
        for name, most in _MOST.items():
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name} is {getattr(self, name)}: give 0 to {most:,}")


NONE = Faults()


@dataclass(slots=True)
class Carrier:
    """Takes frames from machine to machine, and gives them to `arrive(source, target, frame)`.

    `delay_us` is that of a pair of machines without faults. `counts` are of what really went
    wrong: REORDERED are frames that arrived after one that was sent later.
    """

    events: Events
    rng: np.random.Generator
    delay_us: Callable[[str, str], int]
    arrive: Callable[[str, str, Any], None]
    faults: Faults = NONE
    cut: set[frozenset[str]] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    frames: int = 0
    _latest: dict[tuple[str, str], int] = field(default_factory=dict)

    def send(self, source: str, target: str, frame: Any) -> None:
        """Send a frame, or lose it, or send it twice."""
        number = self.frames
        self.frames += 1
        faults = self.faults
        if self.cut and frozenset((source, target)) in self.cut:
            self.counts[CUT] += 1
            return
        if faults.loss and self.rng.random() < faults.loss:
            self.counts[LOST] += 1
            return
        copies = 1
        if faults.duplicate and self.rng.random() < faults.duplicate:
            self.counts[DUPLICATED] += 1
            copies = 2
        for _ in range(copies):
            wait = self.delay_us(source, target)
            if faults.late and self.rng.random() < faults.late:
                wait += int(self.rng.random() * faults.late_ms * 1000)
            self.events.after(wait, lambda: self._arrived(source, target, number, frame))

    def _arrived(self, source: str, target: str, number: int, frame: Any) -> None:
        latest = self._latest.get((source, target), -1)
        if number < latest:
            self.counts[REORDERED] += 1
        self._latest[source, target] = max(number, latest)
        self.arrive(source, target, frame)
