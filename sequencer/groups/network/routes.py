"""Which shards a group's messages pass: the sequencing graph of a view, laid over shards.

A *view* is the graph of some connected groups from one change on (membership.py says why changes
need views). Its nodes live in shards; a path becomes a `Stretch` for each time that it
stays in one shard. Each group has a *line* in each of its views, each overlap an *atom*; both
have numbers that are never used again, so that messages can name them in eight bytes.

How `network` differs from the protocol by message (membership.py): atoms do not retire one by one,
a removal that leaves a view half empty opens a new one instead; nodes are shards, so they are not
placed near anybody; and with `nodes` given, the limit of load may not be kept (placement.py).

All shards keep the same `Directory` and change it by the same commands in the same order.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

from sequencer.change import (
    GROUPS_MAX,
    require_change,
    require_members,
    require_room,
    require_version,
)
from sequencer.groups.network.graph import Graph, build, require
from sequencer.groups.network.lines import Run
from sequencer.groups.network.overlaps import Pair, components, ordered_overlaps
from sequencer.groups.network.placement import place, stretches

ROUTES_KEPT = 64

IDLE_SHARE = 2
"""A view is built anew when only one in this many of its lines is still in use."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of a path in one shard; ``atoms`` are places in the view's pairs that number."""

    shard: int
    atoms: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RoutedView:
    """The graph of connected groups, laid over shards.

    ``groups`` and ``paths`` are sorted by group, members and ``pairs`` are sorted, too. The line of
    the n-th group is ``first_line + n``, the atom of the n-th pair ``first_atom + n``. ``after``
    are the lines whose last messages its subscribers have to have delivered before: those of each
    in the latest view before that it was in, which ends after all earlier ones.
    """

    number: int
    first_line: int
    first_atom: int
    groups: Mapping[str, tuple[str, ...]]
    pairs: tuple[Pair, ...]
    paths: Mapping[str, tuple[Stretch, ...]]
    after: tuple[int, ...] = ()

    def lines(self) -> dict[str, int]:
        """Return the line of each group."""
        return {name: line for line, name in enumerate(self.groups, self.first_line)}


def route(
    groups: Mapping[str, Collection[str]],
    *,
    nodes: int,
    shard_of: Callable[[int], int],
    number: int = 0,
) -> RoutedView:
    """The view of connected groups: its graph, placed on at most ``nodes`` nodes.

    ``shard_of`` gives the shard of a node. Equal arguments give equal views.
    """
    members = tuple((name, tuple(sorted(set(groups[name])))) for name in sorted(groups))
    shards = tuple(map(shard_of, range(nodes)))
    return replace(_routed(members, nodes, shards, number), number=number)


@lru_cache(maxsize=ROUTES_KEPT)
def _routed(
    groups: tuple[tuple[str, tuple[str, ...]], ...], nodes: int, shards: tuple[int, ...], turn: int
) -> RoutedView:
    """As `route`. All shards of a process ask for the same, and building a graph takes its time."""
    members = dict(groups)
    graph, placed = arranged(members, nodes, turn)
    pairs = tuple(sorted(graph.atoms))
    place_of = {pair: at for at, pair in enumerate(pairs)}
    hosts = {pair: shards[node] for pair, node in placed.items()}
    laid = {id(line): stretches(line, hosts) for line in graph.lines()}
    paths: dict[str, tuple[Stretch, ...]] = dict.fromkeys(members, ())
    for name, path in graph.paths.items():
        if isinstance(path, Run) and path:
            paths[name] = _passed(name, path, laid[id(path.line)], place_of)
    return RoutedView(0, 0, 0, members, pairs, paths)


def _passed(
    group: str,
    path: Run,
    laid: tuple[Sequence[int], Sequence[int]],
    place_of: Mapping[Pair, int],
) -> tuple[Stretch, ...]:
    """The stretches of a path, in time of them and the group's own atoms, not of all it passes.

    ``laid``: the places where the shard changes along the path's line, and the shard from there on.
    """
    atoms, own = path.line.atoms, path.line.own(group)
    starts, shards = laid
    first, stop = (bisect_right(starts, at) for at in (path.start, path.stop - 1))
    bounds = [0, *(bisect_left(own, at) for at in starts[first:stop]), len(own)]
    return tuple(
        Stretch(shard, tuple(place_of[atoms[at]] for at in own[a:b]))
        for shard, (a, b) in zip(shards[first - 1 : stop], pairwise(bounds), strict=True)
    )


def arranged(
    groups: Mapping[str, Collection[str]], nodes: int, turn: int = 0
) -> tuple[Graph, dict[Pair, int]]:
    """The checked graph of connected groups, and the node, one of ``nodes``, of each atom.

    Separate graphs take turns where they begin, so that they do not all meet on the first node.
    """
    overlaps = ordered_overlaps(groups)
    graph = require(build(groups, nodes_max=nodes, overlaps=overlaps), groups, overlaps)
    placed = place(graph, groups, nodes_max=nodes)
    spare = nodes - 1 - max(placed.values(), default=nodes - 1)
    first = turn % (spare + 1)
    return graph, {pair: first + node for pair, node in placed.items()}


@dataclass(frozen=True, slots=True)
class Change:
    """What a command did: views that begin, and lines that end with a last message."""

    views: tuple[RoutedView, ...] = ()
    ended: tuple[int, ...] = ()


@dataclass(slots=True)
class Directory:
    """All current groups, and the views that may still have messages on their way.

    ``removed`` remembers when a group was removed (ms), for ``remember_ms``. ``lines``: the line of
    each current group. ``entered``: the latest view that each subscriber is in.
    """

    nodes: int
    shard_of: Callable[[int], int]
    remember_ms: int
    groups_max: int = GROUPS_MAX
    latest: int = 0
    next_line: int = 0
    next_atom: int = 0
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    view_of: dict[str, int] = field(default_factory=dict)
    views: dict[int, RoutedView] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict, init=False)
    entered: dict[str, int] = field(default_factory=dict, init=False)

    def begin(self, groups: Mapping[str, Collection[str]]) -> None:
        """Take a first membership; all groups at once."""
        self.groups = {name: tuple(sorted(set(groups[name]))) for name in sorted(groups)}
        self._open(components(self.groups))

    def change(
        self,
        op: str,
        group: str,
        members: Collection[str],
        now_ms: int,
        if_version: int | None = None,
    ) -> Change:
        """Add a group, set its members, let one join or leave, or remove it.

        Who joins and is a member, or leaves and is none, changes nothing. ChangeError where a
        change is refused, also where the group's view is not ``if_version``.
        """
        require_change(op, group, members, self.groups)
        if op == "add":
            require_room(len(self.groups), self.groups_max)
        else:
            require_version(group, self.view_of[group], if_version)
        if op == "remove":
            return self._remove(group, now_ms)
        before, after = set(self.groups.get(group, ())), set(members)
        if op in ("join", "leave"):
            after = before | after if op == "join" else before - after
            if after == before:
                return Change()
        require_members(group, len(after))
        self.groups[group] = tuple(sorted(after))
        self.removed.pop(group, None)
        part = next(part for part in components(self.groups) if group in part)
        return self._open([part])

    def line(self, group: str) -> int | None:
        """The line of a group now; None where there is no such group."""
        return self.lines.get(group)

    def was_removed(self, group: str, now_ms: int) -> bool:
        """Return whether a group that does not exist was removed not long ago."""
        at_ms = self.removed.get(group)
        return at_ms is not None and now_ms - at_ms <= self.remember_ms

    def forget(self, views: Iterable[int]) -> None:
        """Drop views in which nothing is on its way any more; those in use stay."""
        used = set(self.view_of.values())
        unused = {number for number in views if number in self.views and number not in used}
        if unused:
            self.views = {at: view for at, view in self.views.items() if at not in unused}
            self._enter_all()

    def to_json(self) -> str:
        """All but the arguments; equal directories give equal text."""
        view = {str(number): asdict(view) for number, view in sorted(self.views.items())}
        plain = {name: getattr(self, name) for name in _PLAIN}
        return json.dumps({**plain, "views": view}, sort_keys=True, separators=(",", ":"))

    def load(self, text: str) -> None:
        """Become what `to_json` was taken from."""
        fields_by_name: dict[str, Any] = json.loads(text)
        for name in _PLAIN:
            setattr(self, name, fields_by_name[name])
        self.groups = {name: tuple(members) for name, members in self.groups.items()}
        self.views = {int(at): _view(fields) for at, fields in fields_by_name["views"].items()}
        lines = {number: view.lines() for number, view in self.views.items()}
        self.lines = {name: lines[number][name] for name, number in self.view_of.items()}
        self._enter_all()

    def _remove(self, group: str, now_ms: int) -> Change:
        number = self.view_of.pop(group)
        view = self.views[number]
        del self.groups[group]
        self.removed = {
            name: at_ms for name, at_ms in self.removed.items() if self.was_removed(name, now_ms)
        }
        self.removed[group] = now_ms
        ended = (self.lines.pop(group),)
        present = {name for name in view.groups if self.view_of.get(name) == number}
        if not present or len(present) * IDLE_SHARE > len(view.groups):
            return Change((), ended)
        parts = [part for part in components(self.groups) if not present.isdisjoint(part)]
        opened = self._open(parts)
        return Change(opened.views, (*ended, *opened.ended))

    def _open(self, parts: Sequence[tuple[str, ...]]) -> Change:
        views: list[RoutedView] = []
        ended: list[int] = []
        for part, after in zip(parts, self._before(parts), strict=True):
            groups = {name: self.groups[name] for name in part}
            ended += [self.lines[name] for name in part if name in self.lines]
            view = replace(
                route(groups, nodes=self.nodes, shard_of=self.shard_of, number=self.latest),
                first_line=self.next_line,
                first_atom=self.next_atom,
                after=tuple(after),
            )
            views.append(view)
            self.latest += 1
            self.next_line += len(view.groups)
            self.next_atom += len(view.pairs)
            self.views[view.number] = view
            self.view_of.update(dict.fromkeys(view.groups, view.number))
            self.lines.update(view.lines())
            self._enter(view)
        return Change(tuple(views), tuple(ended))

    def _before(self, parts: Sequence[tuple[str, ...]]) -> list[list[int]]:
        """For each of the parts, which share no subscriber, the lines that end before it; rising.

        They are those of each subscriber in the latest view that it is in. The subscriber's lines
        in earlier views end before these, as that view waits for them.
        """
        before: list[list[int]] = []
        for part in parts:
            latest: dict[int, set[str]] = {}
            for member in set().union(*(self.groups[name] for name in part)):
                latest.setdefault(self.entered.get(member, -1), set()).add(member)
            views = [self.views[number] for number in sorted(latest) if number in self.views]
            before.append(
                [
                    line
                    for view in views
                    for line, members in enumerate(view.groups.values(), view.first_line)
                    if not latest[view.number].isdisjoint(members)
                ]
            )
        return before

    def _enter_all(self) -> None:
        self.entered = {}
        for _, view in sorted(self.views.items()):
            self._enter(view)

    def _enter(self, view: RoutedView) -> None:
        for members in view.groups.values():
            self.entered.update(dict.fromkeys(members, view.number))


_PLAIN = ("latest", "next_line", "next_atom", "groups", "view_of", "removed")


def _view(fields: dict[str, Any]) -> RoutedView:
    return RoutedView(
        fields["number"],
        fields["first_line"],
        fields["first_atom"],
        {name: tuple(members) for name, members in sorted(fields["groups"].items())},
        tuple((first, second) for first, second in fields["pairs"]),
        {
            name: tuple(Stretch(run["shard"], tuple(run["atoms"])) for run in runs)
            for name, runs in sorted(fields["paths"].items())
        },
        tuple(fields["after"]),
    )
