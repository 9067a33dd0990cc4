"""Overlaps of groups: each has a number of its own, which begins at 0 and rises with each message.

An overlap begins when two groups come to have two subscribers in common, and goes on as long as
they do, even if these change. Its number is how many messages both groups had since. So no counter
belongs to a pair: a shard keeps, for each overlap, the sum of both counts at which it began, and
every shard that sees the groups change knows it, also one of whose subscribers none is in it yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sequencer.ragged import Ints

Pair = tuple[int, int]
"""The numbers of two groups, the smaller one first."""


@dataclass(slots=True)
class Overlaps:
    """``begun``: for each overlap the messages of both groups when it began, where there were any.

    A pair that is not in it is an overlap that began before all messages, or none.
    """

    begun: dict[Pair, int] = field(default_factory=dict)

    def change(self, group: int, before: Ints, after: Ints, count: Ints) -> None:
        """A group has overlaps with other groups than ``before``; ``count``: messages, by group."""
        for other in np.setdiff1d(before, after).tolist():
            self.begun.pop(_pair(group, other), None)
        for other in np.setdiff1d(after, before).tolist():
            messages = int(count[group] + count[other])
            if messages:
                self.begun[_pair(group, other)] = messages

    def first(self, group: int, others: Ints) -> Ints:
        """Return the messages at which a group's overlaps with others began."""
        if not self.begun:
            return np.zeros(len(others), np.int64)
        pairs = (_pair(group, other) for other in others.tolist())
        return np.fromiter((self.begun.get(pair, 0) for pair in pairs), np.int64, len(others))

    def renumbered(self, numbers: Mapping[int, int]) -> Overlaps:
        """Return the same for groups that have other numbers."""
        pairs = ((numbers[one], numbers[other], begun) for (one, other), begun in self.rows())
        return Overlaps({_pair(one, other): begun for one, other, begun in pairs})

    def rows(self) -> list[tuple[Pair, int]]:
        """Return what is kept, sorted."""
        return sorted(self.begun.items())


@dataclass(frozen=True, slots=True)
class Pairs:
    """Overlaps by name, ``most`` of them. ``groups``: by overlap the numbers of its two groups,
    and the messages of both when it began.
    """

    most: int | None
    names: Sequence[tuple[str, str]]
    groups: NDArray[np.int64]

    def numbers(self, count: Ints) -> list[tuple[str, str, int]]:
        """Return the overlaps with their next numbers; ``count``: messages, by group."""
        one, other, begun = self.groups.T
        numbers = (count[one] + count[other] - begun).tolist()
        return [(*pair, number) for pair, number in zip(self.names, numbers, strict=True)]


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)
