"""Which pairs of groups need an order of their own.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 1: only subscribers of the
same pair of groups can disagree about an order, so only double overlaps need an atom. That keeps
any two subscribers consistent. It does not keep all of them together consistent: with A in G0, G1,
B in G1, G2 and C in G2, G0 no two groups share two subscribers, and still A may see m0 before m1,
B m1 before m2 and C m2 before m0. `ordered_overlaps` finds the single overlaps where that can
happen; with an atom for these too, no such ring is left.

Why its rule is enough. Take a shortest ring of deliveries, A's step from m (in G) to m' (in H)
one of its steps. No other message of the ring is one that A gets: A would have put it before m'
or after m, and either gives a shorter ring. So G and H are connected by groups that A is not in,
or by a second common subscriber. A pair that is connected in neither way is on no shortest ring.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

Pair = tuple[str, str]
Membership = Mapping[str, Collection[str]]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two groups, sorted by name, and all the subscribers that they have in common."""

    pair: Pair
    members: frozenset[str]

    @property
    def double(self) -> bool:
        """Whether the overlap is one of the paper's: two or more common subscribers."""
        return len(self.members) >= 2


def double_overlaps(groups: Membership) -> tuple[Overlap, ...]:
    """All pairs of groups with two or more common subscribers, sorted by pair."""
    return tuple(overlap for overlap in shared_overlaps(groups) if overlap.double)


def shared_overlaps(groups: Membership) -> tuple[Overlap, ...]:
    """All pairs of groups with a common subscriber, sorted by pair.

    Time is that of the sparse product of the membership matrix with itself (the sum over all
    subscribers of the square of the number of their groups), and of one look at the smaller group
    of each pair. Memory is that of all overlaps' members.
    """
    names, _, matrix = _matrix(groups)
    if not names:
        return ()
    shared = sparse.triu(matrix @ matrix.T, k=1).tocsr()
    shared.sort_indices()
    rows, columns = shared.nonzero()
    sets = [frozenset(groups[name]) for name in names]
    return tuple(
        Overlap((names[row], names[column]), sets[row] & sets[column])
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    )


def ordered_overlaps(groups: Membership) -> tuple[Overlap, ...]:
    """The overlaps that need an atom, sorted by pair: all double ones, and single ones on a ring.

    A single overlap is on a ring when its two groups stay connected (groups are connected through
    common subscribers) without its subscriber and without all other groups of that subscriber.
    """
    shared = shared_overlaps(groups)
    if all(overlap.double for overlap in shared):
        return shared
    # Sets of groups are the bits of integers: whole sets are joined and cut in one operation.
    bit = {name: 1 << at for at, name in enumerate(sorted(groups))}
    near = [0] * len(bit)
    for overlap in shared:
        first, second = (bit[name] for name in overlap.pair)
        near[first.bit_length() - 1] |= second
        near[second.bit_length() - 1] |= first
    memberships: dict[str, int] = {}
    for name in sorted(groups):
        for member in set(groups[name]):
            memberships[member] = memberships.get(member, 0) | bit[name]
    everything = (1 << len(bit)) - 1

    def on_ring(overlap: Overlap) -> bool:
        (member,) = overlap.members
        foreign = everything & ~memberships[member]
        first, second = (near[bit[name].bit_length() - 1] & foreign for name in overlap.pair)
        return _connected(first, second, near, foreign)

    return tuple(overlap for overlap in shared if overlap.double or on_ring(overlap))


def components(groups: Membership) -> tuple[tuple[str, ...], ...]:
    """The groups that are connected through common subscribers, sorted by their first names."""
    names, _, matrix = _matrix(groups)
    if not names:
        return ()
    count, labels = connected_components(matrix @ matrix.T, directed=False)
    parts: list[list[str]] = [[] for _ in range(count)]
    for name, label in zip(names, labels, strict=True):
        parts[label].append(name)
    return tuple(sorted(tuple(part) for part in parts))


def _connected(start: int, goal: int, near: Sequence[int], within: int) -> bool:
    """Whether a way leads from one set of groups to another, through groups `within` only."""
    seen = waiting = start
    while waiting:
        if seen & goal:
            return True
        lowest = waiting & -waiting
        fresh = near[lowest.bit_length() - 1] & within & ~seen
        seen |= fresh
        waiting = (waiting ^ lowest) | fresh
    return False


def _matrix(groups: Membership) -> tuple[list[str], list[str], sparse.csr_matrix]:
    """Names of groups, names of subscribers, and a matrix with a 1 for each membership."""
    names = sorted(groups)
    members = sorted({member for subscribers in groups.values() for member in subscribers})
    column = {member: at for at, member in enumerate(members)}
    sizes = [len(set(groups[name])) for name in names]
    indices = [column[member] for name in names for member in sorted(set(groups[name]))]
    indptr = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    ones = np.ones(len(indices), dtype=np.int32)
    return (
        names,
        members,
        sparse.csr_matrix((ones, indices, indptr), shape=(len(names), len(members))),
    )
