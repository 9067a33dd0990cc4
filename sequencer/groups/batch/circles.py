"""Which groups each subscriber is in; those that are in the same groups share one list."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sequencer.ragged import Ints

COMMON_MIN = 2
"""Two groups are an overlap that is numbered where this many subscribers are in both."""


@dataclass(slots=True)
class Circles:
    """``of``: for each subscriber (a number) its circle; ``lists``: for each circle its groups
    (numbers), sorted by name. Circle 0 is that of subscribers in no group. ``names``: of groups.
    """

    names: Sequence[str]
    of: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    lists: list[Ints] = field(default_factory=lambda: [np.empty(0, np.int64)])
    known: dict[bytes, int] = field(default_factory=lambda: {b"": 0})

    @classmethod
    def gathered(
        cls, names: Sequence[str], groups: Iterable[tuple[int, Ints]], subscribers: int
    ) -> Circles:
        """The circles of groups with their members."""
        circles = cls(names, np.zeros(subscribers, np.int32))
        ordered = sorted(groups, key=lambda numbered: names[numbered[0]])
        if not ordered:
            return circles
        members = np.concatenate([group_members for _, group_members in ordered])
        lengths = [len(group_members) for _, group_members in ordered]
        group = np.repeat(np.array([number for number, _ in ordered], np.int64), lengths)
        order = np.argsort(members, kind="stable")
        group = group[order]
        counts = np.bincount(members, minlength=subscribers)
        ends = np.cumsum(counts)
        for who in np.flatnonzero(counts).tolist():
            stop = int(ends[who])
            circles.of[who] = circles._circle(group[stop - int(counts[who]) : stop])
        return circles

    def grow(self, subscribers: int) -> None:
        """Make room for more subscribers."""
        more = np.zeros(subscribers - len(self.of), np.int32)
        self.of = np.concatenate((self.of, more))

    def enter(self, members: Ints, group: int) -> None:
        """Subscribers that were not in a group are from now on."""
        self._move(members, group, entered=True)

    def leave(self, members: Ints, group: int) -> None:
        """Subscribers are in a group no more."""
        self._move(members, group, entered=False)

    def partners(self, group: int, members: Ints) -> Ints:
        """The groups that a group with these members has an overlap with; ascending."""
        if not len(members):
            return np.empty(0, np.int64)
        circles, counts = np.unique(self.of[members], return_counts=True)
        lists = [self.lists[circle] for circle in circles.tolist()]
        weights = np.repeat(counts, [len(groups) for groups in lists])
        common = np.bincount(np.concatenate(lists), weights)
        common[group] = 0
        return np.flatnonzero(common >= COMMON_MIN)

    def _move(self, members: Ints, group: int, *, entered: bool) -> None:
        before, inverse = np.unique(self.of[members], return_inverse=True)
        after = np.array(
            [self._moved(circle, group, entered) for circle in before.tolist()], np.int32
        )
        if len(after):
            self.of[members] = after[inverse]

    def _moved(self, circle: int, group: int, entered: bool) -> int:
        groups = self.lists[circle]
        if not entered:
            return self._circle(groups[groups != group])
        at = bisect_left(groups.tolist(), self.names[group], key=self.names.__getitem__)
        return self._circle(np.insert(groups, at, group))

    def _circle(self, groups: Ints) -> int:
        circle = self.known.setdefault(groups.tobytes(), len(self.lists))
        if circle == len(self.lists):
            self.lists.append(groups.copy())
        return circle
