"""Groups that come, change and go while messages are under way.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 3.2, changes a group by
adding the new one and removing the old one, and ends a group with a termination message, like a
TCP FIN. Here a *view* is a graph for some groups, under a number that only grows:

- An added or changed group opens a view with all groups that it is connected to, through any
  common subscribers. Each of them has its own numbers, from 0, in every view.
- The switch is a message of each of these groups: the last one of its old view. A removed group
  gets such a message too (its FIN), and no view is opened.
- A subscriber enters its next view when it has delivered the last message of all its groups.
- An ingress in a view where a sender is no member of the group, though it is one in a later view,
  switches before it numbers the message. (A sender that is a member there has not left that view
  either.) So what a message has caused is never in an older view than it, nor in one where the
  sender is a stranger.

So every subscriber gets its messages in the order of views, no ring of deliveries can lead through
two of them, and inside one view its graph keeps the order. Nobody waits for old messages to leave
the network. Atoms of a view retire one by one when the last messages have passed (atoms.py); until
then they add numbers that no one needs, which does no harm.

Here it is done message by message, as the simulation runs it; routes.py has the same views for
shards that exchange batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sequencer.change import ChangeError, require_change
from sequencer.groups.network.graph import Graph, build, require
from sequencer.groups.network.ordering import (
    DUPLICATE,
    HELD,
    GroupMessage,
    HeldLimitError,
    Ingress,
    Receiver,
)
from sequencer.groups.network.overlaps import Pair, components


class RemovedGroupError(ValueError):
    """A message to a group that has ended, or that never was; it was not numbered."""


@dataclass(frozen=True, slots=True)
class View:
    """The graph of some groups from one change on: `groups` is group -> its subscribers."""

    number: int
    groups: Mapping[str, frozenset[str]]
    graph: Graph

    def of(self, member: str) -> frozenset[str]:
        """The groups of this view that a subscriber is in."""
        return frozenset(group for group, members in self.groups.items() if member in members)


@dataclass(slots=True)
class Views:
    """All views, and the current groups: the membership that the paper keeps in a DHT.

    An ingress may act on a change late, but what it reads must be up to date when it numbers.
    `views_max` limits the views that are remembered: see `forget`. `nodes_max` is the number of
    nodes that graphs are built for, None for as many as the limit of load takes.
    """

    views_max: int = 10_000
    groups: dict[str, frozenset[str]] = field(default_factory=dict)
    views: dict[int, View] = field(default_factory=dict)
    latest: int = 0
    starts: dict[str, list[int]] = field(default_factory=dict)
    joins: dict[str, list[int]] = field(default_factory=dict)
    removed: set[tuple[str, int]] = field(default_factory=set)
    nodes_max: int | None = None

    def add(self, group: str, members: Collection[str]) -> View:
        """Open a view with a new group (a removed name may come again)."""
        require_change("add", group, members, self.groups)
        return self._open(group, members)

    def set(self, group: str, members: Collection[str]) -> View:
        """Open a view in which a group has other members."""
        require_change("set", group, members, self.groups)
        return self._open(group, members)

    def remove(self, group: str) -> int:
        """End a group without a new view; returns the view in which it ends."""
        require_change("remove", group, (), self.groups)
        del self.groups[group]
        number = self.starts[group][-1]
        self.removed.add((group, number))
        return number

    def following(self, member: str, after: int) -> View | None:
        """The first view past a number that has a subscriber in it."""
        return self._first(self.joins.get(member, ()), after)

    def start(self, group: str, after: int) -> View | None:
        """The first view past a number that has a group in it."""
        return self._first(self.starts.get(group, ()), after)

    def forget(self, below: int) -> None:
        """Drop views below a number; the caller knows that no message or reader is in them.

        ValueError if a group that exists is still in one of them.
        """
        for group in self.groups:
            if self.starts[group][-1] < below:
                raise ValueError(
                    f"{group} is in view {self.starts[group][-1]}: nothing was forgotten; "
                    "forget views below that one only"
                )
        self.views = {number: view for number, view in self.views.items() if number >= below}
        self.removed = {end for end in self.removed if end[1] >= below}
        self.starts = _kept(self.starts, below)
        self.joins = _kept(self.joins, below)

    def _open(self, group: str, members: Collection[str]) -> View:
        if len(self.views) >= self.views_max:
            raise ChangeError(
                "too-many-views",
                f"{len(self.views)} views are remembered, the limit, and {group} was not changed: "
                "forget those that have ended, then try again",
            )
        changed = {**self.groups, group: frozenset(members)}
        connected = next(part for part in components(changed) if group in part)
        groups = {name: changed[name] for name in connected}
        graph = require(build(groups, nodes_max=self.nodes_max), groups)
        view = View(self.latest + 1, groups, graph)
        self.groups = changed
        self.latest = view.number
        self.views[view.number] = view
        for name in connected:
            self.starts.setdefault(name, []).append(view.number)
        for member in sorted(frozenset().union(*groups.values())):
            self.joins.setdefault(member, []).append(view.number)
        return view

    def _first(self, numbers: Collection[int], after: int) -> View | None:
        ordered = list(numbers)
        at = bisect_right(ordered, after)
        return self.views[ordered[at]] if at < len(ordered) else None


def _kept(numbers: Mapping[str, list[int]], below: int) -> dict[str, list[int]]:
    kept = {name: [at for at in held if at >= below] for name, held in numbers.items()}
    return {name: held for name, held in kept.items() if held}


@dataclass(slots=True)
class GroupIngress:
    """The ingress of one group through all its views. `view` 0 is before the first one.

    `first`: view -> the first atom on the group's path, None if it has none; for the views of the
    messages of the last call.
    """

    group: str
    view: int = 0
    open: bool = False
    ingress: Ingress = field(init=False)
    first: dict[int, Pair | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ingress = Ingress(self.group)

    def publish(self, message: GroupMessage, views: Views) -> tuple[GroupMessage, ...]:
        """The numbered message, after the last messages of views that come before its sender joins.

        RemovedGroupError if the group is not open; no number is used up then.
        """
        out: list[GroupMessage] = []
        self._forget()
        while not self.open or self._joins(message.sender, views):
            switched = self._switch(views)
            if switched is None:
                break
            out.extend(switched)
        if not self.open:
            raise RemovedGroupError(
                f"{self.group} is not a group now: the message of {message.sender} was not taken; "
                "add the group, or send to another"
            )
        return (*out, self._numbered(message.sender, message.body, last=False))

    def switch(self, views: Views) -> tuple[GroupMessage, ...] | None:
        """One step to what the views say: the last message of a view, or none if one opens.

        None if there is nothing to do. May be called late: until then the old members get all.
        """
        self._forget()
        return self._switch(views)

    def _forget(self) -> None:
        """The messages of the last call are on their way: only this view's first atom is needed."""
        self.first = {view: pair for view, pair in self.first.items() if view == self.view}

    def _switch(self, views: Views) -> tuple[GroupMessage, ...] | None:
        following = views.start(self.group, self.view)
        if not self.open:
            if following is None:
                return None
            path = following.graph.paths[self.group]
            self.first[following.number] = path[0] if path else None
            self.view, self.open = following.number, True
            self.ingress = Ingress(self.group)
            return ()
        if following is None and (self.group, self.view) not in views.removed:
            return None
        last = self._numbered("", None, last=True)
        self.open = False
        return (last,)

    def _joins(self, sender: str, views: Views) -> bool:
        """Whether a sender that is not in the group now will be, by a view that is open already."""
        if sender in views.views[self.view].groups[self.group]:
            return False
        later = (number for number in views.starts.get(self.group, ()) if number > self.view)
        return any(sender in views.views[number].groups[self.group] for number in later)

    def _numbered(self, sender: str, body: Any, *, last: bool) -> GroupMessage:
        return self.ingress.number(
            GroupMessage(self.group, sender, body, view=self.view, last=last)
        )


@dataclass(slots=True)
class Subscriber:
    """A receiver through all its views; `held_max` limits what it holds in all of them."""

    name: str
    held_max: int = 100_000
    view: int = 0
    unended: set[str] = field(default_factory=set)
    receiver: Receiver = field(init=False)
    later: dict[int, dict[tuple[str, int], GroupMessage]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.receiver = Receiver(self.name, frozenset(), frozenset(), self.held_max)

    @property
    def holding(self) -> int:
        """The number of held messages."""
        return self.receiver.holding + sum(map(len, self.later.values()))

    def take(self, message: GroupMessage, views: Views) -> tuple[str, tuple[GroupMessage, ...]]:
        """What became of a message, and all that is delivered now, last messages included.

        As `Receiver.take`. A message of a view to come is held.
        """
        # Whatever is delivered here frees room, so nothing below refuses the message then.
        out = list(self._enter(views))
        if message.view < self.view:
            return DUPLICATE, tuple(out)
        if message.view > self.view:
            waiting = self.later.setdefault(message.view, {})
            if (message.group, message.number) in waiting:
                return DUPLICATE, tuple(out)
            self._require_room(message)
            waiting[message.group, message.number] = message
            return HELD, tuple(out)
        if not (self.receiver.has(message) or self.receiver.is_next(message)):
            self._require_room(message)
        outcome, delivered = self.receiver.take(message)
        out.extend(self._noted(delivered))
        out.extend(self._enter(views))
        return outcome, tuple(out)

    def _enter(self, views: Views) -> list[GroupMessage]:
        """Enter views as long as nothing of the present one is missing."""
        out: list[GroupMessage] = []
        while not self.unended:
            following = views.following(self.name, self.view)
            if following is None:
                break
            groups = following.of(self.name)
            atoms = following.graph.atoms.items()
            pairs = frozenset(pair for pair, members in atoms if self.name in members)
            self.view, self.unended = following.number, set(groups)
            self.receiver = Receiver(self.name, groups, pairs, self.held_max)
            for _, message in sorted(self.later.pop(self.view, {}).items()):
                out.extend(self._noted(self.receiver.take(message)[1]))
        return out

    def _noted(self, delivered: tuple[GroupMessage, ...]) -> tuple[GroupMessage, ...]:
        self.unended.difference_update(m.group for m in delivered if m.last)
        return delivered

    def _require_room(self, message: GroupMessage) -> None:
        if self.holding >= self.held_max:
            raise HeldLimitError(
                f"{self.name} holds {self.holding} messages, its limit, and did not take "
                f"{message.group}/{message.number} of view {message.view}: offer it again when "
                "the gap before it is filled"
            )
