"""Numbers for messages on their way, and the receiver's decision: deliver or hold.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 3.1: the ingress of a group
gives each message a group-local number; each atom of the group on its path adds the next number of
its overlap; a receiver delivers a message at once if the group-local number and the numbers of all
overlaps that it is in are the next ones, and holds it otherwise.

What carries the messages between these steps must keep the order of each edge (links.py). From the
last atom to the receivers any order will do.

This is the protocol by message: with membership.py and atoms.py it runs in the simulation. The
service's `sequencing = "network"` runs it by batch (shard.py);
tests/sequencer/groups/network/test_both_forms.py gives both equal histories and wants equal
results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from sequencer.groups.network.graph import Graph
from sequencer.groups.network.overlaps import Membership, Pair

DELIVERED = "delivered"
HELD = "held"
DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class GroupMessage:
    """A message to a group; `number` is -1 until its ingress has numbered it.

    `stamps` are (pair, number of that overlap), in order of passage. `view` counts the memberships
    of all groups; `last` marks the message that ends a view of the group (membership.py).
    """

    group: str
    sender: str
    body: Any
    number: int = -1
    stamps: tuple[tuple[Pair, int], ...] = ()
    view: int = 0
    last: bool = False


class HeldLimitError(RuntimeError):
    """A receiver holds as many messages as it may; the new one was not taken: offer it again."""


@dataclass(slots=True)
class Ingress:
    """Gives the messages of one group their group-local numbers, from 0."""

    group: str
    following: int = 0

    def number(self, message: GroupMessage) -> GroupMessage:
        """The message with the next number. ValueError if it is another group's or has one."""
        if message.group != self.group or message.number >= 0:
            raise ValueError(
                f"the ingress of {self.group} numbers new messages of that group only: "
                f"{message.group}/{message.number} was not numbered; send it to its own ingress"
            )
        numbered = replace(message, number=self.following)
        self.following += 1
        return numbered


@dataclass(slots=True)
class Atom:
    """Numbers the messages of two groups, from 0; messages of other groups pass unchanged."""

    pair: Pair
    following: int = 0

    def stamp(self, message: GroupMessage) -> GroupMessage:
        """The message as it leaves the atom. ValueError if it has been here before."""
        if message.group not in self.pair:
            return message
        if any(pair == self.pair for pair, _ in message.stamps):
            raise ValueError(
                f"{message.group}/{message.number} reached atom {'+'.join(self.pair)} again: it "
                "was not numbered a second time; repair the path (C1) or the link"
            )
        stamped = replace(message, stamps=(*message.stamps, (self.pair, self.following)))
        self.following += 1
        return stamped


@dataclass(slots=True)
class Receiver:
    """One subscriber: what comes next in each of its groups and overlaps, and what it holds.

    `ended` are groups whose last message is delivered. `held_max` limits the held messages. A
    message that can be delivered is taken at the limit too,
    so a full receiver gets free as soon as the message arrives that it waits for.
    """

    name: str
    groups: frozenset[str]
    pairs: frozenset[Pair]
    held_max: int = 100_000
    next_number: dict[str, int] = field(default_factory=dict)
    next_stamp: dict[Pair, int] = field(default_factory=dict)
    held: dict[str, dict[int, GroupMessage]] = field(default_factory=dict)
    holding: int = 0
    ended: set[str] = field(default_factory=set)
    _own: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self._own = dict(Counter(group for pair in self.pairs for group in pair))

    def take(self, message: GroupMessage) -> tuple[str, tuple[GroupMessage, ...]]:
        """What became of a message, and all that is delivered now, in order.

        The first is DELIVERED, HELD or DUPLICATE (nothing changed). ValueError if the message is
        of a group that the receiver is not in, HeldLimitError if it cannot be held.
        """
        group = message.group
        if group not in self.groups or message.number < 0:
            raise ValueError(
                f"{self.name} cannot take {group}/{message.number}: not a numbered message of "
                f"{', '.join(sorted(self.groups)) or 'any group'}; it was not taken"
            )
        if self.has(message):
            return DUPLICATE, ()
        if self.is_next(message):
            return DELIVERED, tuple(self._deliver(message))
        if self.holding >= self.held_max:
            raise HeldLimitError(
                f"{self.name} holds {self.holding} messages, its limit, and did not take "
                f"{group}/{message.number}: offer it again when the gap before it is filled"
            )
        self.held.setdefault(group, {})[message.number] = message
        self.holding += 1
        return HELD, ()

    def has(self, message: GroupMessage) -> bool:
        """Return whether a message was taken before: it is delivered or held."""
        group, number = message.group, message.number
        return number < self.next_number.get(group, 0) or number in self.held.get(group, ())

    def is_next(self, message: GroupMessage) -> bool:
        """Return whether all numbers of a message that concern this receiver are the next ones.

        An overlap of the group that gave it no number has lost its other group before (atoms.py):
        that one's last message must have been delivered.
        """
        group = message.group
        if message.number != self.next_number.get(group, 0):
            return False
        stamped = 0
        for pair, number in message.stamps:
            if pair in self.pairs:
                stamped += 1
                if number != self.next_stamp.get(pair, 0):
                    return False
        return stamped == self._own.get(group, 0) or self._rest_has_ended(message)

    def _rest_has_ended(self, message: GroupMessage) -> bool:
        stamped = {pair for pair, _ in message.stamps}
        return all(
            (pair[0] if pair[1] == message.group else pair[1]) in self.ended
            for pair in self.pairs
            if message.group in pair and pair not in stamped
        )

    def _deliver(self, message: GroupMessage) -> Iterable[GroupMessage]:
        """Deliver a message and whatever waited for it.

        What a delivery can free is the next message of its own group, or of a group that shares
        one of its overlaps; nothing else is looked at.
        """
        ready: GroupMessage | None = message
        looked: list[str] = []
        while ready is not None:
            yield ready
            self.next_number[ready.group] = ready.number + 1
            looked.append(ready.group)
            for pair, number in ready.stamps:
                if pair in self.pairs:
                    self.next_stamp[pair] = number + 1
                    looked.append(pair[0] if pair[1] == ready.group else pair[1])
            if ready.last:
                self.ended.add(ready.group)
                looked.extend(sorted(self.groups - {ready.group}))
            ready = None
            while looked and ready is None:
                ready = self._release(looked.pop())

    def _release(self, group: str) -> GroupMessage | None:
        waiting = self.held.get(group)
        if not waiting:
            return None
        candidate = waiting.get(self.next_number.get(group, 0))
        if candidate is None or not self.is_next(candidate):
            return None
        del waiting[candidate.number]
        self.holding -= 1
        return candidate


def receivers(graph: Graph, groups: Membership, *, held_max: int = 100_000) -> dict[str, Receiver]:
    """A receiver for each subscriber of a membership, before the first message."""
    groups_of: dict[str, set[str]] = {}
    for group in sorted(groups):
        for member in groups[group]:
            groups_of.setdefault(member, set()).add(group)
    pairs: dict[str, set[Pair]] = {member: set() for member in groups_of}
    for pair, members in graph.atoms.items():
        for member in members:
            pairs[member].add(pair)
    return {
        member: Receiver(member, frozenset(groups_of[member]), frozenset(pairs[member]), held_max)
        for member in sorted(groups_of)
    }
