"""Stamps of groups: each delivery has one of every overlap that its subscriber is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from streaming.verify.faults import Verdict
from streaming.verify.group_deliveries import GroupDeliveries, Pair
from streaming.verify.histories import text
from streaming.verify.memberships import Group, Members, changing

Overlaps = tuple[set[Pair], set[Pair]]
"""The overlaps that a subscriber is in: for certain, and perhaps."""


@dataclass(slots=True)
class StampJudge:
    """``groups`` with their memberships; ``pinned``: those that events name, by version."""

    verdict: Verdict
    deliveries: GroupDeliveries
    groups: Mapping[bytes, Group]
    pinned: Mapping[tuple[bytes, int], Members]
    known: dict[tuple[bytes, Members, bytes], Overlaps] = field(default_factory=dict)

    def judge(self, *, by_batch: bool, needed: bool) -> None:
        """Find stamps that are missing (if ``needed``), too many, or begin again.

        ``by_batch``: the numbers of an overlap change by its own groups alone.
        """
        moving = set() if by_batch else changing(self.groups)
        for pair, restart in self.deliveries.restarts:
            if not moving.intersection(name.encode() for name in pair):
                self.verdict.find("overlap-order", restart)
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
        """The overlaps of a membership."""
        certain: set[Pair] = set()
        possible: set[Pair] = set()
        group_name = name.decode()
        for other, group in self.groups.items():
            if other == name:
                continue
            first, second = sorted((group_name, other.decode()))
            fits = [
                key in membership and len(membership & members) > 1
                for membership in group.memberships
            ]
            if any(fits):
                possible.add((first, second))
            if group.steady and all(fits):
                certain.add((first, second))
        return certain, possible
