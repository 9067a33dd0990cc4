"""Notices of changes that wait for their place among what a shard delivers.

A change ends lines of the network, each with a last message behind all that came before it. Members
of the new view get it when the last lines before it have ended here, in front of all messages of
the view; subscribers in none of its groups, when the changed group's own line has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.groups.network.routes import RoutedView
from streaming.disciplines.groups.notices import detail, notices, words


@dataclass(frozen=True, slots=True)
class Waiting:
    """A notice: ``names`` get it, each with a word (its place in WORDS), when ``lines`` ended."""

    lines: tuple[int, ...]
    names: tuple[str, ...]
    word: tuple[int, ...]
    text: str
    timestamp: int

    @classmethod
    def of(cls, fields: Sequence[Any]) -> Waiting:
        """Return the inverse of :meth:`fields`."""
        lines, names, word, text, timestamp = fields
        return cls(tuple(lines), tuple(names), tuple(word), text, timestamp)

    def fields(self) -> list[Any]:
        """What JSON can hold; the arguments, in order."""
        return [self.lines, self.names, self.word, self.text, self.timestamp]


@dataclass(frozen=True, slots=True)
class Membership:
    """A group before and after a change, with the lines that have to end for its members.

    ``view``: the subscribers of the group's view now; ``after``: the lines before that view;
    ``line``: the group's line before, if there was one.
    """

    before: frozenset[str]
    after: frozenset[str]
    view: frozenset[str]
    lines_before: tuple[int, ...]
    line: tuple[int, ...]

    @classmethod
    def of(
        cls,
        before: Collection[str],
        after: Collection[str],
        view: RoutedView | None,
        line: int | None,
    ) -> Membership:
        """Of a group's members before and after, its view now and its line before, if any."""
        groups = () if view is None else view.groups.values()
        return cls(
            frozenset(before),
            frozenset(after),
            frozenset().union(*groups),
            () if view is None else view.after,
            () if line is None else (line,),
        )


def waiting_notices(
    op: str,
    change: dict[str, Any],
    of: Membership,
    timestamp: int,
    here: Callable[[Sequence[str]], Collection[str]],
) -> list[Waiting]:
    """The notices of a change to subscribers that are ``here``, where it changed any membership."""
    entered, left = of.after - of.before, of.before - of.after
    if not entered and not left:
        return []
    members = of.before if op == "remove" else of.after | left
    names = sorted(here(sorted(members)))
    numbers = {name: at for at, name in enumerate(sorted(members))}
    who, new, old = (
        np.array(sorted(map(numbers.__getitem__, some)), np.int64)
        for some in (names, entered, left)
    )
    text = detail(change, op, sorted(entered), sorted(left), len(of.after)).decode()
    word = dict(zip(names, words(op, who, new, old).tolist(), strict=True))
    found = []
    for lines, inside in ((of.lines_before, True), (of.line, False)):
        some = tuple(name for name in names if (name in of.view) is inside)
        if some:
            found.append(Waiting(lines, some, tuple(map(word.__getitem__, some)), text, timestamp))
    return found


def due(
    waiting: Sequence[Waiting],
    ended: Sequence[tuple[int, int]],
    unended: Callable[[Collection[int]], set[int]],
) -> tuple[list[tuple[int, Waiting]], list[Waiting]]:
    """The notices whose place is in this step, by that place, and those that wait on.

    A place is the number of deliveries before it. ``ended``: the lines that ended in the step, with
    their places; ``unended`` returns those of some lines that have not ended.
    """
    places = {line: place for place, line in ended}
    now: list[tuple[int, Waiting]] = []
    on: list[Waiting] = []
    for notice in waiting:
        if unended(notice.lines):
            on.append(notice)
        else:
            now.append((max((places.get(line, 0) for line in notice.lines), default=0), notice))
    return sorted(now, key=lambda each: each[0]), on


def table(notice: Waiting, counts: tuple[Any, Any]) -> pa.Table:
    """The records of a notice, for the sink; ``counts``: `sequence` and `incarnation` of each."""
    sequence, incarnation = counts
    return notices(
        notice.names,
        np.array(notice.word, np.int64),
        notice.text.encode(),
        notice.timestamp,
        {"sequence": sequence, "incarnation": incarnation},
    )
