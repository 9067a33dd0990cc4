"""What a judge says: named faults with a witness, and what it looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

WITNESSES_MAX = 1_000
"""Faults of one name that keep their witness; the others are counted."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that must not be, and where it can be seen."""

    name: str
    witness: str


@dataclass(slots=True)
class Verdict:
    """Faults found in one pipeline, and how much was looked at."""

    pipeline: str
    looked_at: dict[str, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def find(self, name: str, witness: str | Callable[[], str]) -> None:
        """Note a fault; a witness that takes a search is only made where it is kept."""
        self.counts[name] = self.counts.get(name, 0) + 1
        if self.counts[name] <= WITNESSES_MAX:
            self.faults.append(Fault(name, witness if isinstance(witness, str) else witness()))

    @property
    def good(self) -> bool:
        """Whether nothing was found."""
        return not self.counts
