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

from sequencer.groups.batch.circles import Circles
from sequencer.groups.batch.directory import Directory, Group
from sequencer.groups.batch.numbers import Numbered, number
from sequencer.groups.batch.overlaps import Pairs
from sequencer.groups.batch.stamps import Shown, shown, texts
from sequencer.groups.batch.subscribers import Subscribers
from sequencer.ragged import Ints, Ragged
from sequencer.slices import slices

SLICE_MAX = 500_000
"""Deliveries of a slice; one with a long text counts for several."""

TEXT_BYTES = 64
LINES_MAX = 2_000_000
"""Subscribers and stamps in the lines that are kept."""

CIRCLES_IDLE_MAX = 1_000
"""Circles that may be nobody's are kept up to this number, and one more for each subscriber."""

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
class BatchShard:
    """``grouped``: in how many groups each subscriber is. ``stamped``: whether stamps are made.

    Who is in which groups together (``circles``) is worked out where stamps or a change need it.
    """

    directory: Directory
    subscribers: Subscribers
    mine: Mine
    stamped: bool
    grouped: Ints = field(init=False)
    _circles: Circles | None = field(init=False, default=None)
    _pairs: Pairs | None = field(init=False, default=None)
    lines: dict[int, list[Line]] = field(init=False, default_factory=dict)
    kept: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        members = [group.members for group in self.directory.groups.values()]
        every = np.concatenate([np.empty(0, np.int64), *members])
        self.grouped = np.bincount(every, minlength=len(self.directory.subscribers))

    @property
    def circles(self) -> Circles:
        """Who is in which groups together."""
        if self._circles is None:
            groups = [(group.number, group.members) for group in self.directory.groups.values()]
            self._circles = Circles.gathered(self.directory.names, groups, len(self.grouped))
        return self._circles

    def change(
        self,
        op: str,
        name: str,
        members: Collection[str],
        now_ms: int,
        if_version: int | None = None,
    ) -> Moved:
        """Change a group before the next messages; see `Directory.change`."""
        directory, circles = self.directory, self.circles
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
        circles.grow(len(directory.subscribers))
        partners_before = circles.partners(group.number, before)
        circles.leave(left, group.number)
        circles.enter(entered, group.number)
        partners = circles.partners(group.number, after)
        directory.overlaps.change(group.number, partners_before, partners, directory.count)
        stale = np.union1d(partners_before, partners) if self.stamped else before[:0]
        for group_number in (group.number, *stale.tolist()):
            self.lines.pop(group_number, None)
        self._pairs = None
        if len(circles.lists) > 2 * len(circles.of) + CIRCLES_IDLE_MAX:
            self._circles = None  # each change makes some, and none goes: gather those in use
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

    def overlaps(self, most: int | None = None) -> list[tuple[str, str, int]]:
        """The overlaps by name, of which ``most``, each with its next number."""
        if self._pairs is None or self._pairs.most != most:
            self._pairs = self._numbered_pairs(most)
        return self._pairs.numbers(self.directory.count)

    def idle(self, since_ms: int) -> Ints:
        """The shard's subscribers that are in no group and got nothing since then; by name."""
        idle = self.subscribers.idle(self.grouped > 0, since_ms).tolist()
        return np.array(sorted(idle, key=self.directory.subscribers.__getitem__), np.int64)

    def unneeded(self, first: int) -> Ints:
        """Subscribers from number ``first`` on that are in no group and never got anything."""
        needed = self.subscribers.born | (self.grouped > 0)
        needed[:first] = True
        return np.flatnonzero(~needed)

    def compacted(self, gone: Ints) -> BatchShard:
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
            overlaps=old.overlaps.renumbered(
                {old: new for new, old in enumerate(numbers.tolist())}
            ),
            _numbers=None,
        )
        return BatchShard(directory, self.subscribers.take(kept), self.mine, self.stamped)

    def _numbered_pairs(self, most: int | None) -> Pairs:
        directory, names = self.directory, self.directory.names
        rows: list[tuple[str, str, int, int, int]] = []
        for name, group in sorted(directory.groups.items()):
            others = self.circles.partners(group.number, group.members)
            first = directory.overlaps.first(group.number, others).tolist()
            rows += sorted(
                (name, names[other], group.number, other, begun)
                for other, begun in zip(others.tolist(), first, strict=True)
                if name < names[other]
            )
            if most is not None and len(rows) >= most:
                del rows[most:]
                break
        numbers = np.array([row[2:] for row in rows], np.int64).reshape(len(rows), 3)
        return Pairs(most, [row[:2] for row in rows], numbers)

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
        if self.stamped and len(mine):
            view = shown(self.circles, self.directory.overlaps, number, members, mine)
            weights += view.sizes() // TEXT_BYTES
        for first, stop in slices(weights, SLICE_MAX):
            part = view if view is None or stop - first == len(mine) else view.part(first, stop)
            yield Line(mine[first:stop], int(weights[first:stop].sum()), part)
