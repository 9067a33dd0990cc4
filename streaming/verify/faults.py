"""What a judge says: named faults with a witness, and what it looked at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

ANOMALIES = {
    "acyclic": "G0",
    "causality": "G1c",
    "rejected-and-delivered": "G1a",
    "pairwise-order": "incompatible-order",
    "group-order": "incompatible-order",
    "stamp-order": "incompatible-order",
    "overlap-order": "incompatible-order",
    "invented": "garbage-read",
    "lost": "lost-write",
    "unfinished": "unseen",
    "missing-delivery": "lost-write",
    "hole": "int-poll-skip",
    "unannounced-gap": "int-poll-skip",
    "disorder": "nonmonotonic-poll",
    "sender-order": "nonmonotonic-poll",
    "overtaken": "nonmonotonic-poll",
    "repeat": "duplicate",
    "delivered-twice": "duplicate",
    "rewritten": "inconsistent-offsets",
    "two-contents": "inconsistent-offsets",
}
"""Names of Elle, or of Jepsen's tests of Kafka, for the same thing (docs/guarantees.md)."""
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

    def look(self, **counts: int) -> None:
        """Add to what was looked at."""
        for name, count in counts.items():
            self.looked_at[name] = self.looked_at.get(name, 0) + count

    @property
    def anomalies(self) -> dict[str, str]:
        """What Elle calls the faults that were found, where it has a name."""
        return {name: ANOMALIES[name] for name in sorted(self.counts) if name in ANOMALIES}

    def smallest(self, name: str, count: int) -> list[str]:
        """Return the shortest witnesses of a fault."""
        return sorted((each.witness for each in self.faults if each.name == name), key=len)[:count]

    @property
    def good(self) -> bool:
        """Whether nothing was found."""
        return not self.counts
