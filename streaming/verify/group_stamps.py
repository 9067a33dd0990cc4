"""Stamps of groups: each delivery has one of every overlap that its subscriber is in, from 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from streaming.verify.faults import Verdict
from streaming.verify.group_deliveries import GroupDeliveries
from streaming.verify.histories import text
from streaming.verify.memberships import Group, Members, changing
from streaming.verify.overlap_numbers import Pair

Overlaps = tuple[set[Pair], set[Pair]]
"""The overlaps that a subscriber is in: for certain, and perhaps."""


@dataclass(slots=True)
class StampJudge:
    """``groups`` with their memberships; ``pinned``: those that events name, by version.

    ``by_batch``: the numbers of an overlap change by its own groups alone.
    """

    verdict: Verdict
    deliveries: GroupDeliveries
    groups: Mapping[bytes, Group]
    pinned: Mapping[tuple[bytes, int], Members]
    by_batch: bool
    known: dict[tuple[bytes, Members, bytes], Overlaps] = field(default_factory=dict)
    cores: dict[bytes, Members] = field(default_factory=dict)
    joined: dict[bytes, list[bytes]] = field(default_factory=dict)

    def judge(self, *, needed: bool, is_due: Callable[[int], bool] | None) -> None:
        """Find stamps that are missing (if ``needed``), too many, or begin again.

        ``is_due``: whether all before a message had its time; None: the first ones need not be
        there.
        """
        if self.by_batch:
            self._judge_overlaps(is_due)
        else:
            self._judge_atoms()
        for (name, number, key, pairs), where in self.deliveries.shapes.items():
            if key not in self.deliveries.versions[name][number].members:
                continue
            certain, possible = self._of_version(name, number, key)
            certain = certain if needed else set()
            if not certain <= set(pairs) <= possible:
                wanted = ", ".join(" ".join(pair) for pair in sorted(certain)) or "none"
                listed = ", ".join(" ".join(pair) for pair in pairs) or "none"
                subject = f"{where} and others of version {number} of {text(name)}: {text(key)}"
                verdict = f"{subject} is in overlaps {wanted}, the stamps are of {listed}"
                self.verdict.find("wrong-stamps", verdict)

    def _judge_atoms(self) -> None:
        """Numbers of the network begin again with the first message of a new version alone."""
        moving = changing(self.groups)
        for each in self.deliveries.overlaps.beginnings:
            moved = moving.intersection(name.encode() for name in each.pair)
            if each.number <= each.last and (each.in_version or not moved):
                self.verdict.find("overlap-order", each.witness)
        self._numbered_once(lambda _, group, version: (group, version))

    def _judge_overlaps(self, is_due: Callable[[int], bool] | None) -> None:
        """An overlap's numbers begin at 0 when it begins, and go on as long as it lasts."""
        overlaps = self.deliveries.overlaps
        for each in overlaps.beginnings:
            first, second = (name.encode() for name in each.pair)
            other = second if each.group == first else first
            falls = each.number <= each.last
            if falls and (self._lasts(each.pair) or (each.in_version and self._is_steady(other))):
                self.verdict.find("overlap-order", each.witness)
            elif is_due and each.number and self._always_in(each.key, each.pair):
                self.verdict.find("overlap-start", f"{each.witness}, and not with 0")
        for pair, (number, message, key) in overlaps.lowest.items():
            if is_due and number and (self._always_in(key, pair) or is_due(message)):
                witness = f"{self.deliveries.name(message)} (got by {text(key)}) has {number}"
                wrong = f"the lowest number of overlap {pair[0]} {pair[1]}, which begins at 0"
                self.verdict.find("overlap-start", f"{witness}, {wrong}")

        def one_line(pair: Pair, group: bytes, version: int) -> object:
            first, second = (name.encode() for name in pair)
            other = second if group == first else first
            if self._lasts(pair):
                return ()
            return (group, version) if self._is_steady(other) else None

        self._numbered_once(one_line)

    def _numbered_once(self, one_line: Callable[[Pair, bytes, int], object]) -> None:
        """No two messages share a number in one line of an overlap."""
        for pair in self.deliveries.overlaps.shared(one_line, self.deliveries.names.__getitem__):
            self.verdict.find("overlap-order", partial(self._one_number, *pair))

    def _one_number(self, one: int, two: int) -> str:
        deliveries = self.deliveries
        where = [
            f"{deliveries.name(m)} (got by {deliveries.histories.first_place(m)})"
            for m in (one, two)
        ]
        return f"{where[0]} and {where[1]} have one number of one overlap"

    def _lasts(self, pair: Pair) -> bool:
        """Return whether two subscribers are in both groups for ever."""
        return len(self._core(pair[0].encode()) & self._core(pair[1].encode())) > 1

    def _always_in(self, key: bytes, pair: Pair) -> bool:
        """Return whether a subscriber is in both groups for ever."""
        return all(key in self._core(name.encode()) for name in pair)

    def _core(self, name: bytes) -> Members:
        """Who is in a group for ever."""
        if name not in self.cores:
            group = self.groups.get(name, Group())
            whole = group.configured and not group.removed and not group.added
            self.cores[name] = frozenset.intersection(*group.memberships) if whole else frozenset()
        return self.cores[name]

    def _is_steady(self, name: bytes) -> bool:
        return self.groups.get(name, Group()).steady

    def _of_version(self, name: bytes, number: int, key: bytes) -> Overlaps:
        """The overlaps in a version of a group.

        Where no event names its members, they are any that explain who got its messages.
        """
        version = self.deliveries.versions[name][number]
        candidates = {version.members}
        if (name, number) not in self.pinned:
            got = version.got.keys()
            candidates |= {each for each in self.groups[name].memberships if got <= each}
        found = []
        for members in candidates:
            if (name, members, key) not in self.known:
                self.known[name, members, key] = self._of(name, members, key)
            found.append(self.known[name, members, key])
        certain, possible = zip(*found, strict=True)
        return set.intersection(*certain), set.union(*possible)

    def _of(self, name: bytes, members: Members, key: bytes) -> Overlaps:
        """The overlaps of a membership.

        On a network the last messages of a group that is removed have no stamps of an overlap if
        they come behind the end of the other group's path.
        """
        ends = bool(self.groups[name].removed) and not self.by_batch
        certain: set[Pair] = set()
        possible: set[Pair] = set()
        group_name = name.decode()
        for other in self._groups_of(key):
            group = self.groups[other]
            if other == name or not any(
                key in membership and len(membership & members) > 1
                for membership in group.memberships
            ):
                continue
            first, second = sorted((group_name, other.decode()))
            possible.add((first, second))
            if group.steady and not ends:
                certain.add((first, second))
        return certain, possible

    def _groups_of(self, key: bytes) -> Sequence[bytes]:
        """Return the groups that a subscriber was ever in."""
        if not self.joined:
            for name, group in self.groups.items():
                for member in frozenset().union(*group.memberships):
                    self.joined.setdefault(member, []).append(name)
        return self.joined.get(key, ())
