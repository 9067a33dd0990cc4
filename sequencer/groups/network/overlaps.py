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

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from sequencer.groups.network.parts import connected

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

    Sets of groups are the bits of integers: the groups that share a subscriber with a group are
    those of all its subscribers together. Time is that of one such union for each membership, and
    of one look at the smaller group of each pair. Memory is that of all overlaps' members.
    """
    names = sorted(groups)
    sets = [frozenset(groups[name]) for name in names]
    groups_of = _groups_of(sets)
    found = []
    for row, members in enumerate(sets):
        later = reduce(or_, map(groups_of.__getitem__, members), 0) >> (row + 1)
        for column in _bits(later):
            other = row + 1 + column
            found.append(Overlap((names[row], names[other]), members & sets[other]))
    return tuple(found)


def ordered_overlaps(groups: Membership) -> tuple[Overlap, ...]:
    """The overlaps that need an atom, sorted by pair: all double ones, and single ones on a ring.

    A single overlap is on a ring when its two groups stay connected (groups are connected through
    common subscribers) without its subscriber and without all other groups of that subscriber.
    Others take no memory: many groups may have one subscriber in common.
    """
    names = sorted(groups)
    sets = [frozenset(groups[name]) for name in names]
    groups_of = _groups_of(sets)
    near, double = [], []
    for row, members in enumerate(sets):
        once = twice = 0
        for member in members:
            twice |= once & groups_of[member]
            once |= groups_of[member]
        near.append(once & ~(1 << row))
        double.append(twice & ~(1 << row))
    everything = (1 << len(sets)) - 1
    found = []
    for row, members in enumerate(sets):
        later = near[row] & (-2 << row)
        ordered = later & double[row]
        for member in members if later != ordered else ():
            single = later & groups_of[member] & ~double[row]
            ordered |= _on_rings(row, single, everything & ~groups_of[member], near)
        found += [Overlap((names[row], names[at]), members & sets[at]) for at in _bits(ordered)]
    return tuple(found)


def components(groups: Membership) -> tuple[tuple[str, ...], ...]:
    """The groups that are connected through common subscribers, sorted by their first names."""
    names = sorted(groups)
    first: dict[str, int] = {}
    shared = (
        (first.setdefault(member, at), at)
        for at, name in enumerate(names)
        for member in groups[name]
    )
    parts: dict[int, list[str]] = {}
    for name, part in zip(names, connected(len(names), shared), strict=True):
        parts.setdefault(part, []).append(name)
    return tuple(map(tuple, parts.values()))


def _on_rings(row: int, others: int, foreign: int, near: Sequence[int]) -> int:
    """Return those of ``others`` that a group has a way to, through ``foreign`` groups only.

    Sets of groups are bits. ``near``: for each group those that share a subscriber with it.
    """
    waiting = near[row] & foreign
    fresh = foreign ^ waiting
    missing = others
    while waiting and missing:
        lowest = waiting & -waiting
        beyond = near[lowest.bit_length() - 1]
        missing &= ~(missing & beyond)
        found = beyond & fresh
        fresh ^= found
        waiting ^= lowest | found
    return others ^ missing


def _groups_of(groups: Sequence[Collection[str]]) -> dict[str, int]:
    """Return the groups of each member as bits: bit i is that of ``groups[i]``."""
    found: dict[str, int] = {}
    for at, members in enumerate(groups):
        for member in members:
            found[member] = found.get(member, 0) | 1 << at
    return found


def _bits(number: int) -> Iterator[int]:
    """Yield the places of the bits that are set, the lowest first."""
    while number:
        lowest = number & -number
        yield lowest.bit_length() - 1
        number ^= lowest
