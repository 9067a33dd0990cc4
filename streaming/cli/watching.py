"""`sequencer status --watch`: a line of history for each pipeline, since it was begun."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

BLOCKS = "▁▂▃▄▅▆▇█"
COLUMNS = 30


@dataclass
class History:
    """What pipelines had delivered and held, when somebody looked (monotonic time, s)."""

    looks: deque[tuple[float, Mapping[str, tuple[int, int]]]] = field(
        default_factory=lambda: deque(maxlen=COLUMNS + 1)
    )

    def note(self, now: float, found: Mapping[str, Mapping[str, Any]]) -> None:
        """Remember the figures of a look."""
        counts = {name: (each["delivered"], each["held"]) for name, each in found.items()}
        self.looks.append((now, counts))

    def lines(self) -> list[str]:
        """Return a line for each pipeline: deliveries a second, and what is held; none at first."""
        if len(self.looks) < 2:
            return []
        names = self.looks[-1][1]
        wide = max(map(len, names), default=0)
        lines = []
        for name in names:
            rates = [
                max(0, after[name][0] - before[name][0]) / max(later - at, 1e-3)
                for (at, before), (later, after) in pairwise(self.looks)
                if name in before and name in after
            ]
            held = [counts[name][1] for _, counts in list(self.looks)[1:] if name in counts]
            if rates:
                drawn = f"out {bars(rates)} {rates[-1]:,.0f}/s  held {bars(held)} {held[-1]:,}"
                lines.append(f"{name:<{wide}}  {drawn}")
        return lines


def bars(values: Sequence[float]) -> str:
    """Return a character for each value, from an empty one for 0 to a full one for the highest."""
    most = max([*values, 0])
    if not most:
        return BLOCKS[0] * len(values)
    top = len(BLOCKS) - 1
    return "".join(
        BLOCKS[0] if value <= 0 else BLOCKS[max(1, round(value / most * top))] for value in values
    )
