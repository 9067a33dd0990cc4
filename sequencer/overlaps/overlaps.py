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

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
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

    Time and memory are those of the sparse product of the membership matrix with itself: the sum
    over all subscribers of the square of the number of their groups.
    """
    names, _, matrix = _matrix(groups)
    if not names:
        return ()
    shared = sparse.triu(matrix @ matrix.T, k=1).tocsr()
    shared.sort_indices()
    rows, columns = shared.nonzero()
    return tuple(
        Overlap((first, second), frozenset(groups[first]) & frozenset(groups[second]))
        for first, second in sorted(
            (names[row], names[column]) for row, column in zip(rows, columns, strict=True)
        )
    )


def ordered_overlaps(groups: Membership) -> tuple[Overlap, ...]:
    """The overlaps that need an atom, sorted by pair: all double ones, and single ones on a ring.

    A single overlap is on a ring when its two groups stay connected (groups are connected through
    common subscribers) without its subscriber and without all other groups of that subscriber.
    """
    shared = shared_overlaps(groups)
    single: dict[str, list[Overlap]] = {}
    for overlap in shared:
        if not overlap.double:
            single.setdefault(next(iter(overlap.members)), []).append(overlap)
    ringed: set[Pair] = set()
    if single:
        names, members, matrix = _matrix(groups)
        row = {name: at for at, name in enumerate(names)}
        column = {member: at for at, member in enumerate(members)}
        by_member = matrix.T.tocsr()
        for member, overlaps in single.items():
            at = column[member]
            own = by_member.indices[by_member.indptr[at] : by_member.indptr[at + 1]]
            reached = _reached(matrix, own, at)
            ringed.update(
                overlap.pair
                for overlap in overlaps
                if reached[row[overlap.pair[0]]] & reached[row[overlap.pair[1]]]
            )
    return tuple(overlap for overlap in shared if overlap.double or overlap.pair in ringed)


def components(groups: Membership) -> tuple[tuple[str, ...], ...]:
    """The groups that are connected through common subscribers, sorted by their first names."""
    names, _, matrix = _matrix(groups)
    if not names:
        return ()
    count, labels = connected_components(matrix @ matrix.T, directed=False)
    found: list[list[str]] = [[] for _ in range(count)]
    for name, label in zip(names, labels, strict=True):
        found[label].append(name)
    return tuple(sorted(tuple(part) for part in found))


def _reached(
    matrix: sparse.csr_matrix, own: NDArray[np.int32], member: int
) -> dict[int, frozenset[int]]:
    """For each group of a subscriber, the parts that the foreign groups next to it belong to.

    A part is a connected component of the groups that the subscriber is not in.
    """
    foreign = np.setdiff1d(np.arange(matrix.shape[0]), own)
    apart = matrix[foreign]
    size = len(foreign)
    # One graph of groups and subscribers is smaller than the product of groups with groups.
    joined = sparse.bmat([[None, apart], [apart.T, None]], format="csr")
    _, labels = connected_components(joined, directed=False)
    return {
        int(group): frozenset(
            int(labels[size + other])
            for other in matrix.indices[matrix.indptr[group] : matrix.indptr[group + 1]]
            if other != member
        )
        for group in own
    }


def _matrix(groups: Membership) -> tuple[list[str], list[str], sparse.csr_matrix]:
    """Names of groups, names of subscribers, and a matrix with a 1 for each membership."""
    names = sorted(groups)
    members = sorted({member for some in groups.values() for member in some})
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
