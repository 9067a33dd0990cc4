"""One shard of groups whose messages have one order that every shard knows.

Every shard sees all messages and all commands, in one order, and numbers the messages by itself;
it delivers to its own subscribers. Nothing is held, and no shard asks another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.groups.circles import Circles
from sequencer.groups.directory import Directory, Group
from sequencer.groups.numbers import Numbered, number
from sequencer.groups.stamps import Shown, shown, texts
from sequencer.groups.subscribers import Subscribers
from sequencer.ragged import Ints, Ragged
from sequencer.slices import slices

SLICE_MAX = 500_000
"""Deliveries of a slice; one with a long text counts for several."""

TEXT_BYTES = 64
LINES_MAX = 2_000_000
"""Subscribers and stamps in the lines that are kept."""

UNKNOWN_GROUP = "unknown-group"
REMOVED_GROUP = "removed-group"

Mine = Callable[[Sequence[str]], NDArray[np.bool_]]
"""Which of some subscribers belong to the shard; for ever."""


class Moved(NamedTuple):
    """A group that was changed, and who entered and left it: subscribers, ascending."""

    group: Group
    entered: Ints
    left: Ints


@dataclass(frozen=True, slots=True)
class Line:
    """Members of a group that belong to the shard, as many as a slice takes."""

    own: Ints
    weight: int
    shown: Shown | None


@dataclass(frozen=True, slots=True)
class Slice:
    """Deliveries in order: message ``first + message[n]`` to subscriber ``who[place[n]]``.

    ``number`` and ``version`` (`group-sequence`, `group-version`) are those of the messages from
    ``first`` on; what else is there, of the deliveries. ``stamps``: null, by its value, where a
    delivery has none; None where none has.
    """

    first: int
    number: Ints
    version: Ints
    message: Ints
    who: Ints
    place: Ints
    sequence: Ints
    incarnation: Ints
    stamps: pa.DictionaryArray | None


@dataclass(slots=True)
class Shard:
    """``grouped``: in how many groups each subscriber is. ``stamped``: whether stamps are made."""

    directory: Directory
    subscribers: Subscribers
    mine: Mine
    stamped: bool
    grouped: Ints = field(init=False)
    circles: Circles | None = field(init=False, default=None)
    lines: dict[int, list[Line]] = field(init=False, default_factory=dict)
    kept: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        groups = [(group.number, group.members) for group in self.directory.groups.values()]
        count = len(self.directory.subscribers)
        members = np.concatenate(
            [np.empty(0, np.int64), *(group_members for _, group_members in groups)]
        )
        self.grouped = np.bincount(members, minlength=count)
        if self.stamped:
            self.circles = Circles.gathered(self.directory.names, groups, count)

    def change(
        self,
        op: str,
        name: str,
        members: Collection[str],
        now_ms: int,
        if_version: int | None = None,
    ) -> Moved:
        """Change a group before the next messages; see `Directory.change`."""
        directory = self.directory
        there = directory.groups.get(name)
        before = there.members if there is not None else np.empty(0, np.int64)
        group = directory.change(op, name, members, now_ms, if_version)
        after = group.members if op != "remove" else np.empty(0, np.int64)
        new = directory.subscribers[len(self.grouped) :]
        self.grouped = np.append(self.grouped, np.zeros(len(new), np.int64))
        self.subscribers.grow(self.mine(new))
        left, entered = np.setdiff1d(before, after), np.setdiff1d(after, before)
        self.grouped[left] -= 1
        self.grouped[entered] += 1
        stale = {group.number}
        if self.circles is not None:
            self.circles.grow(len(directory.subscribers))
            stale |= self._partners(group.number, before)
            self.circles.leave(left, group.number)
            self.circles.enter(entered, group.number)
            stale |= self._partners(group.number, after)
        for group_number in stale:
            self.lines.pop(group_number, None)
        return Moved(group, entered, left)

    def why(self, name: str, now_ms: int) -> str:
        """Why a message to a group that does not exist is rejected."""
        gone = self.directory.was_removed(name, now_ms)
        return REMOVED_GROUP if gone else UNKNOWN_GROUP

    def take(self, group: Ints, now_ms: int) -> Iterator[Slice]:
        """Messages to groups (numbers) in their order: all deliveries, slice by slice.

        The shard has taken the messages when all slices have been.
        """
        directory = self.directory
        numbered = number(group, directory.count)
        distinct, place = np.unique(group, return_inverse=True)
        lists = [self._lines(group_number) for group_number in distinct.tolist()]
        lines = [line for group_lines in lists for line in group_lines]
        bounds = np.concatenate(
            ([0], np.cumsum([len(group_lines) for group_lines in lists]))
        ).astype(np.int64)
        parts = Ragged(bounds, np.arange(len(lines))).take(place)
        line, message = parts.values, parts.owners()
        weights = np.array([one.weight for one in lines], np.int64)[line]
        for first, stop in slices(weights, SLICE_MAX):
            yield self._slice(lines, line[first:stop], message[first:stop], numbered, now_ms)
        directory.count = numbered.after()

    def idle(self, since_ms: int) -> Ints:
        """The shard's subscribers that are in no group and got nothing since then; by name."""
        idle = self.subscribers.idle(self.grouped > 0, since_ms).tolist()
        return np.array(sorted(idle, key=self.directory.subscribers.__getitem__), np.int64)

    def unneeded(self, first: int) -> Ints:
        """Subscribers from number ``first`` on that are in no group and never got anything."""
        needed = self.subscribers.born | (self.grouped > 0)
        needed[:first] = True
        return np.flatnonzero(~needed)

    def compacted(self, gone: Ints) -> Shard:
        """The same without some subscribers; the others, and the groups, have new numbers."""
        old = self.directory
        place = np.cumsum(np.isin(np.arange(len(self.grouped)), gone, invert=True)) - 1
        kept = np.setdiff1d(np.arange(len(self.grouped)), gone)
        numbers = old.numbers()
        groups = {
            name: Group(at, place[group.members], group.first)
            for at, (name, group) in enumerate(old.groups.items())
        }
        directory = replace(
            old,
            groups=groups,
            names=list(groups),
            subscribers=[old.subscribers[subscriber] for subscriber in kept.tolist()],
            places={},
            version=old.version[numbers],
            count=old.count[numbers],
            start=old.start[numbers],
            _numbers=None,
        )
        return Shard(directory, self.subscribers.take(kept), self.mine, self.stamped)

    def _partners(self, group: int, members: Ints) -> set[int]:
        if self.circles is None or not len(members):
            return set()
        return set(self.circles.partners(group, members).tolist())

    def _slice(
        self, lines: Sequence[Line], line: Ints, message: Ints, numbered: Numbered, now_ms: int
    ) -> Slice:
        used, which = np.unique(line, return_inverse=True)
        used_lines = [lines[at] for at in used.tolist()]
        bounds = np.concatenate(([0], np.cumsum([len(one.own) for one in used_lines])))
        members = Ragged(bounds.astype(np.int64), np.concatenate([one.own for one in used_lines]))
        taken = members.take(which)
        owner = taken.owners()
        first = int(message[0])
        sequence, incarnation, who, place = self.subscribers.deliver(taken.values, now_ms)
        stamps = None
        views = [one.shown for one in used_lines if one.shown is not None]
        if any(len(view.groups) for view in views):
            stamp_texts, begin = texts(views, which, message, numbered)
            kinds = Ragged(members.bounds, np.concatenate([view.kind for view in views]))
            index = begin[owner] + kinds.take(which).values
            stamps = pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), stamp_texts)
        stop = int(message[-1]) + 1
        group = numbered.group[first:stop]
        return Slice(
            first,
            numbered.before[first:stop] - self.directory.start[group],
            self.directory.version[group],
            message[owner] - first,
            who,
            place,
            sequence,
            incarnation,
            stamps,
        )

    def _lines(self, number: int) -> list[Line]:
        lines = self.lines.get(number)
        if lines is None:
            lines = list(self._made(number))
            self.kept += sum(line.weight for line in lines)
            if self.kept > LINES_MAX:
                self.lines, self.kept = {}, 0
            self.lines[number] = lines
        return lines

    def _made(self, number: int) -> Iterator[Line]:
        members = self.directory.groups[self.directory.names[number]].members
        mine = members[self.subscribers.mine[members]]
        weights = np.ones(len(mine), np.int64)
        view = None
        if self.circles is not None and len(mine):
            view = shown(self.circles, number, members, mine)
            weights += view.sizes() // TEXT_BYTES
        for first, stop in slices(weights, SLICE_MAX):
            part = view if view is None or stop - first == len(mine) else view.part(first, stop)
            yield Line(mine[first:stop], int(weights[first:stop].sum()), part)
