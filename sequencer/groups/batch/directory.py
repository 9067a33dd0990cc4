"""The current groups, as every shard keeps them: names, members, versions, counts.

All shards carry out the same commands in the same order and see all messages, so their directories
are the same. Groups and subscribers have numbers, which mean nothing outside.

- A group's version grows with each of its memberships and with nothing else: 0, 1, 2, … A removed
  name is remembered for some time; added again meanwhile, it goes on above its last version. Names
  that are new begin above the versions of all that were forgotten: none has a version twice.
- A group's count of messages goes on through its versions (and, as far as it is remembered, through
  a removal), so it only grows while the name lives.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from sequencer.change import (
    GROUPS_MAX,
    require_change,
    require_members,
    require_room,
    require_version,
)
from sequencer.groups.batch.overlaps import Overlaps
from sequencer.ragged import Ints


@dataclass(slots=True)
class Group:
    """``members``: subscribers, ascending. ``first``: it has the members that it began with."""

    number: int
    members: Ints
    first: bool = False


@dataclass(frozen=True, slots=True)
class Removed:
    """What is remembered of a removed group: when (ms), its last version, its messages."""

    at_ms: int
    version: int
    count: int


@dataclass(frozen=True, slots=True)
class First:
    """A first membership: names of subscribers and groups, ascending; members by group."""

    subscribers: Sequence[str]
    groups: Sequence[str]
    members: Sequence[Ints]


@dataclass(slots=True)
class Directory:
    """By group's number: its ``version``, its messages up to now (``count``) and when its version
    began (``start``).

    ``versions_floor`` and ``counts_floor``: where groups begin whose names are not known.
    ``places``: of subscribers. ``names``: of groups by number, those of the past included.
    ``overlaps``: where their numbers begin.
    """

    remember_ms: int
    groups_max: int = GROUPS_MAX
    groups: dict[str, Group] = field(default_factory=dict)
    removed: dict[str, Removed] = field(default_factory=dict)
    subscribers: list[str] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    version: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    count: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    start: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    overlaps: Overlaps = field(default_factory=Overlaps)
    _numbers: Ints | None = None
    versions_floor: int = 0
    counts_floor: int = 0

    @classmethod
    def begin(cls, first: First, remember_ms: int) -> Directory:
        """As at the beginning: each group in version 0, without messages."""
        directory = cls(remember_ms, subscribers=list(first.subscribers), names=list(first.groups))
        for number, (name, members) in enumerate(zip(first.groups, first.members, strict=True)):
            directory.groups[name] = Group(number, members, first=True)
        directory.version, directory.count, directory.start = np.zeros(
            (3, len(directory.names)), np.int64
        )
        return directory

    def change(
        self,
        op: str,
        name: str,
        members: Collection[str],
        now_ms: int,
        if_version: int | None = None,
    ) -> Group:
        """Add a group, set its members, let one join or leave, or remove it.

        Returns the group as it is now, or was. Who joins and is a member, or leaves and is none,
        changes nothing. ChangeError where a change is refused, also where the group's version is
        not ``if_version``.
        """
        require_change(op, name, members, self.groups)
        if op == "add":
            require_room(len(self.groups), self.groups_max)
        else:
            require_version(name, int(self.version[self.number(name)]), if_version)
        if op == "remove":
            self._forget(now_ms)
            return self._remove(name, now_ms)
        if op == "add":
            self._forget(now_ms)
            return self._add(name, self._places(members))
        group = self.groups[name]
        after = self._after(op, group.members, members)
        if op != "set" and np.array_equal(after, group.members):
            return group
        require_members(name, len(after))
        self._forget(now_ms)
        group.members, group.first = after, False
        self.version[group.number] += 1
        self.start[group.number] = self.count[group.number]
        return group

    def number(self, name: str) -> int:
        """The number of a group; -1 where there is none."""
        group = self.groups.get(name)
        return -1 if group is None else group.number

    def was_removed(self, name: str, now_ms: int) -> bool:
        """Return whether a group that does not exist was removed not long ago."""
        removal = self.removed.get(name)
        return removal is not None and now_ms - removal.at_ms <= self.remember_ms

    def numbers(self) -> Ints:
        """The numbers of the groups that there are, in order of their coming."""
        if self._numbers is None:
            self._numbers = np.array([group.number for group in self.groups.values()], np.int64)
        return self._numbers

    def _add(self, name: str, members: Ints) -> Group:
        before = self.removed.pop(name, None)
        version, count = self.versions_floor, self.counts_floor
        if before is not None:
            version, count = before.version + 1, before.count
        group = self.groups[name] = Group(len(self.names), members)
        self._numbers = None
        self.names.append(name)
        self.version = np.append(self.version, version)
        self.count = np.append(self.count, count)
        self.start = np.append(self.start, count)
        return group

    def _remove(self, name: str, now_ms: int) -> Group:
        group = self.groups.pop(name)
        self._numbers = None
        version, count = int(self.version[group.number]), int(self.count[group.number])
        self.removed[name] = Removed(now_ms, version, count)
        return group

    def _forget(self, now_ms: int) -> None:
        """Forget what was removed long ago. Times never fall: the first were removed first."""
        for name in list(self.removed):
            if self.was_removed(name, now_ms):
                break
            gone = self.removed.pop(name)
            self.versions_floor = max(self.versions_floor, gone.version + 1)
            self.counts_floor = max(self.counts_floor, gone.count)

    def _after(self, op: str, members: Ints, named: Collection[str]) -> Ints:
        """The members of a group after `set`, `join` or `leave`."""
        if op == "leave":
            known = self._known_places()
            gone = [known[name] for name in named if name in known]
            return np.setdiff1d(members, np.array(gone, np.int64))
        places = self._places(named)
        return np.union1d(members, places) if op == "join" else places

    def _places(self, members: Collection[str]) -> Ints:
        """The subscribers' numbers; new ones get theirs in order of their names."""
        known = self._known_places()
        for name in sorted(set(members)):
            if known.setdefault(name, len(self.subscribers)) == len(self.subscribers):
                self.subscribers.append(name)
        return np.array(sorted({known[name] for name in members}), np.int64)

    def _known_places(self) -> dict[str, int]:
        if not self.places:
            self.places = {name: at for at, name in enumerate(self.subscribers)}
        return self.places
