"""Atoms in the network: the tables that lead messages through them, and how they retire.

"Decentralized Message Ordering for Publish/Subscribe Systems", sections 3.1 and 3.2. An atom has a
forwarding table (group -> the next atom) and a reverse-path table (group -> the one before). When a
termination message (FIN) says that one of its two groups has ended, its overlap is gone: it
numbers nothing any more, and retires by informing the atoms before it to send to the ones after it.

    retiring atom       the one before               retiring atom            the one after
    Reroute        >    all its groups at once,
                        then Rerouted           >    passes it on        >    takes from the new one

`Rerouted` follows the last message of the old way, on that way. What comes the new way before it is
kept until then, so the edge as a whole keeps its order. All groups that come from one place move at
once, since two that took different ways could pass each other. One atom of a view retires at a time
(`Retirements`), so both neighbours stay where they are.

Retirement is part of the protocol by message, so of the simulation; shards (shard.py) have none.

A message without the number of an overlap was numbered after that overlap's other group had ended;
a receiver of both delivers it after that group's last message (ordering.Receiver).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from sequencer.groups.network.membership import GroupIngress, View
from sequencer.groups.network.ordering import Atom, GroupMessage
from sequencer.groups.network.overlaps import Pair


@dataclass(frozen=True, slots=True)
class Reroute:
    """To all that send to a retiring atom: where its groups' messages go from now on.

    `to` is the atom before, or None for the ingress of the one group. `following` are (group, the
    next atom, None for the subscribers).
    """

    view: int
    retiring: Pair
    to: Pair | None
    following: tuple[tuple[str, Pair | None], ...]


@dataclass(frozen=True, slots=True)
class Rerouted:
    """To the retiring atom, then to the one after: `groups` come from `previous` from now on."""

    view: int
    to: Pair
    previous: Pair | None
    groups: tuple[str, ...]


@dataclass(slots=True)
class Onward:
    """What an atom gives out: messages with their next atoms (None for the subscribers), notices.

    `settled` are groups that a retiring atom is rid of.
    """

    messages: list[tuple[GroupMessage, Pair | None]] = field(default_factory=list)
    notices: list[Rerouted] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ViewAtom:
    """The atom of a pair in one view, with its tables.

    `following` and `previous`: group -> atom; None for the subscribers, and for the ingress. They
    have the groups that can still come. `early` has messages whose new way was the shorter one.
    """

    view: int
    atom: Atom
    following: dict[str, Pair | None]
    previous: dict[str, Pair | None]
    gone: bool = False
    retiring: bool = False
    early: list[GroupMessage] = field(default_factory=list)

    @classmethod
    def of(cls, view: View, pair: Pair) -> ViewAtom:
        """The atom before the first message of its view."""
        following: dict[str, Pair | None] = {}
        previous: dict[str, Pair | None] = {}
        for group, path in sorted(view.graph.paths.items()):
            if pair in path:
                at = path.index(pair)
                previous[group] = path[at - 1] if at else None
                following[group] = path[at + 1] if at + 1 < len(path) else None
        return cls(view.number, Atom(pair), following, previous)

    @property
    def retired(self) -> bool:
        """Whether no message can come any more: the state may be dropped."""
        return not self.following

    def take(self, message: GroupMessage, source: Pair | None) -> Onward:
        """A message from the atom before (None: its ingress). ValueError if it is off its path."""
        group = message.group
        if group not in self.previous:
            raise ValueError(
                f"{group}/{message.number} reached atom {'+'.join(self.atom.pair)}, which is not "
                "on its path: it was not taken; repair the path (C1)"
            )
        onward = Onward()
        if source != self.previous[group]:
            self.early.append(message)
        else:
            self._pass(message, onward)
        return onward

    def retire(self) -> tuple[Reroute, ...]:
        """Begin to retire: what to tell whom, for each place that messages come from."""
        self.retiring = True
        from_: dict[tuple[Pair | None, str], list[str]] = {}
        for group, before in sorted(self.previous.items()):
            # Each group has an ingress of its own.
            from_.setdefault((before, group if before is None else ""), []).append(group)
        return tuple(
            Reroute(self.view, self.atom.pair, before, tuple((g, self.following[g]) for g in names))
            for (before, _), names in from_.items()
        )

    def reroute(self, request: Reroute) -> Rerouted | None:
        """As the atom before: from now on send past it; what to send there, after all the rest.

        None if none of the groups comes through here any more.
        """
        moved = [g for g, _ in request.following if self.following.get(g) == request.retiring]
        self.following.update((g, after) for g, after in request.following if g in moved)
        if not moved:
            return None
        return Rerouted(self.view, request.retiring, self.atom.pair, tuple(moved))

    def rerouted(self, notice: Rerouted) -> Onward:
        """As the retiring atom: the old way is empty. As the one after: the new way begins."""
        onward = Onward()
        if self.retiring:
            after: dict[Pair, list[str]] = {}
            for group in notice.groups:
                del self.previous[group]
                target = self.following.pop(group)
                if target is None:
                    onward.settled.append(group)
                else:
                    after.setdefault(target, []).append(group)
            onward.notices = [
                Rerouted(self.view, target, notice.previous, tuple(groups))
                for target, groups in after.items()
            ]
            return onward
        self.previous.update(dict.fromkeys(notice.groups, notice.previous))
        onward.settled.extend(notice.groups)
        # In the order of arrival, whatever their groups: that is the order of the edge.
        ready = [message for message in self.early if message.group in notice.groups]
        self.early = [message for message in self.early if message.group not in notice.groups]
        for message in ready:
            self._pass(message, onward)
        return onward

    def _pass(self, message: GroupMessage, onward: Onward) -> None:
        group = message.group
        stamped = message if self.gone else self.atom.stamp(message)
        onward.messages.append((stamped, self.following[group]))
        if message.last:
            del self.following[group], self.previous[group]
            self.gone = self.gone or group in self.atom.pair
            if self.retiring:
                onward.settled.append(group)


def reroute_ingress(ingress: GroupIngress, request: Reroute) -> Rerouted | None:
    """As `ViewAtom.reroute`, for the ingress of the one group; None if its FIN is on its way."""
    ((group, after),) = request.following
    if not (ingress.open and ingress.view == request.view):
        return None
    ingress.first[request.view] = after
    return Rerouted(request.view, request.retiring, None, (group,))


@dataclass(slots=True)
class Retirements:
    """Which atom of each view retires now, and the groups that still go through it.

    Part of the global picture that the paper keeps in a DHT: all atoms ask the same one.
    """

    under_way: dict[int, tuple[Pair, set[str]]] = field(default_factory=dict)

    def ask(self, view: int, pair: Pair, groups: Collection[str]) -> bool:
        """Return whether an atom may retire now; asking again (after a crash) is no harm."""
        holder, _ = self.under_way.get(view, (pair, None))
        if holder == pair:
            self.under_way[view] = (pair, set(groups))
        return holder == pair

    def settled(self, view: int, groups: Iterable[str]) -> None:
        """Groups have left the retiring atom; with the last of them the next one may retire."""
        if view in self.under_way:
            _, rest = self.under_way[view]
            rest.difference_update(groups)
            if not rest:
                del self.under_way[view]

    def withdraw(self, view: int, pair: Pair) -> None:
        """An atom has ended with its last group, and does not remember that it wanted to retire."""
        if self.under_way.get(view, (None,))[0] == pair:
            del self.under_way[view]
