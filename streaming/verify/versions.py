"""The versions of a group: the messages of each, and which membership explains who got them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
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
    best = [0] * len(memberships)
    choices: list[list[int]] = []
    for version in sorted(versions):
        costs = [_cost(version, versions[version], membership, last) for membership in memberships]
        if version in pinned:
            costs = [
                cost + HARD * HARD * (members != pinned[version])
                for cost, members in zip(costs, memberships, strict=True)
            ]
        choice, least, now = [], 0, []
        for index, cost in enumerate(costs):
            least = index if best[index] < best[least] else least
            choice.append(least)
            now.append(best[least] + cost)
        choices.append(choice)
        best = now
    index = best.index(min(best))
    chosen: dict[int, int] = {}
    for version, choice in zip(sorted(versions, reverse=True), reversed(choices), strict=True):
        chosen[version] = index
        index = choice[index]
    return chosen


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
