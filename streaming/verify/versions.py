"""The versions of a group: the messages of each, and which membership explains who got them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from heapq import merge

from streaming.verify.columns import Column, Strand
from streaming.verify.memberships import Group, Members

HARD = 2**40
"""What a certain fault weighs against a delivery that may come yet."""


class Version:
    """The messages of a group under one version, by rising number, and how many each key got."""

    __slots__ = ("_late", "_store", "got", "members", "messages", "numbers")

    def __init__(self, store: Column) -> None:
        self.numbers = Strand(store)
        self.messages = Strand(store)
        self.got: dict[bytes, int] = {}
        self.members: Members = frozenset()
        self._late: list[tuple[int, int]] = []
        self._store = store

    def take(self, number: int, message: int) -> None:
        """Add a message."""
        if len(self.numbers) and number < self.numbers[-1]:
            self._late.append((number, message))
            return
        self.numbers.append(number)
        self.messages.append(message)

    def finish(self) -> None:
        """Put those into their places that someone got and someone before had not."""
        if self._late:
            every = merge(zip(self.numbers, self.messages, strict=True), sorted(self._late))
            self.numbers, self.messages = Strand(self._store), Strand(self._store)
            for number, message in every:
                self.numbers.append(number)
                self.messages.append(message)


def assign(
    versions: Mapping[int, Version],
    group: Group | None,
    last: Mapping[bytes, tuple[int, int]],
    pinned: Mapping[int, Members],
) -> dict[int, int]:
    """For each version the membership (its index) that explains its deliveries best.

    Later versions never have earlier memberships. ``last``: the highest (version, number) that
    each key has of the group. Versions whose events name them are not guessed.
    """
    memberships = group.memberships if group is not None else []
    if not memberships:
        return {}
    positions: dict[Members, list[int]] = {}
    for index, members in enumerate(memberships):
        positions.setdefault(members, []).append(index)
    bounds = _bounds(sorted({*versions, *pinned}), positions, pinned, len(memberships))
    best = {0: 0}  # the least cost by the last version's membership: more for a later one is no use
    choices: list[dict[int, int]] = []
    for version in sorted(versions):
        first, stop = bounds.get(version, (0, len(memberships)))
        named, before = pinned.get(version), list(best)
        candidates: Iterable[int] = range(first, stop)
        if named is not None and bounds:
            found = {_next(positions[named], max(index, first)) for index in before}
            candidates = sorted(found.intersection(candidates))
        costs: dict[Members, int] = {}
        now: dict[int, int] = {}
        choice: dict[int, int] = {}
        least: int | None = None
        for index in candidates:
            members = memberships[index]
            if members not in costs:
                wrong = named is not None and members != named
                costs[members] = _cost(version, versions[version], members, last)
                costs[members] += HARD * HARD * wrong
            earlier = before[bisect_right(before, index) - 1]
            cost = best[earlier] + costs[members]
            if least is None or cost < least:
                now[index] = least = cost
                choice[index] = earlier
        choices.append(choice)
        best = now
    *_, index = best
    chosen: dict[int, int] = {}
    for version, choice in zip(sorted(versions, reverse=True), reversed(choices), strict=True):
        chosen[version] = index
        index = choice[index]
    return chosen


def _next(positions: Sequence[int], index: int) -> int:
    """Return the first of some rising positions from ``index`` on; -1 where there is none."""
    at = bisect_left(positions, index)
    return positions[at] if at < len(positions) else -1


def _bounds(
    ordered: Sequence[int],
    positions: Mapping[Members, Sequence[int]],
    pinned: Mapping[int, Members],
    stop: int,
) -> dict[int, tuple[int, int]]:
    """Return the first membership that each version can have in this order, and the last plus 1.

    ``positions``: of each membership, below ``stop``. Those that events name are found once in each
    direction, so there are few for a version between two of them. Empty where no order fits these.
    """
    first, firsts = 0, []
    for version in ordered:
        if version in pinned:
            first = _next(positions.get(pinned[version], ()), first)
        if first < 0:
            return {}
        firsts.append(first)
    bounds = {}
    for version, first in zip(reversed(ordered), reversed(firsts), strict=True):
        if version in pinned:
            named = positions[pinned[version]]
            stop = named[bisect_left(named, stop) - 1] + 1
        bounds[version] = first, stop
    return bounds


def _cost(
    number: int, version: Version, members: Members, last: Mapping[bytes, tuple[int, int]]
) -> int:
    """Strays and certain losses, then deliveries that may come yet."""
    hard = sum(count for key, count in version.got.items() if key not in members)
    pending = 0
    for key in members:
        count = len(version.messages) - version.got.get(key, 0)
        lost = passed(number, version, last.get(key)) - version.got.get(key, 0)
        hard += max(0, lost)
        pending += count - max(0, lost)
    return hard * HARD + pending


def passed(number: int, version: Version, last: tuple[int, int] | None) -> int:
    """Return how many messages of a version a receiver of ``last`` must have."""
    if last is None or last[0] < number:
        return 0
    if last[0] > number:
        return len(version.numbers)
    return bisect_right(version.numbers, last[1])
