"""Which things are connected, by pairs of them: a union of sets, as textbooks have it."""

from __future__ import annotations

from collections.abc import Iterable


def connected(count: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Return the number of its part for each of ``count`` things, which are numbered from 0.

    Things are in one part if ``pairs`` lead from one to the other, in either direction. Parts are
    numbered from 0 in the order of their first things.
    """
    parent = list(range(count))

    def root(thing: int) -> int:
        while parent[thing] != thing:
            parent[thing] = thing = parent[parent[thing]]
        return thing

    for one, other in pairs:
        first, second = root(one), root(other)
        parent[max(first, second)] = min(first, second)
    numbers: dict[int, int] = {}
    return [numbers.setdefault(root(thing), len(numbers)) for thing in range(count)]
