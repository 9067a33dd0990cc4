"""Multicast in one process, by either protocol: peers, and a line for every sender.

A bus only looks up names and hands each step to its peer and each reply to its sender; the order
of steps is the caller's. `run` takes them as they come; a scheduler can take them in any order
and put sends and dequeues anywhere between.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

from sequencer.multicast.protocol.clock_peer import ClockPeer
from sequencer.multicast.protocol.clock_transaction import ClockTransaction
from sequencer.multicast.protocol.counter_messages import COUNTER
from sequencer.multicast.protocol.counter_peer import CounterPeer, GlobalCounter
from sequencer.multicast.protocol.counter_transaction import CounterTransaction
from sequencer.multicast.protocol.sender_line import SenderLine
from sequencer.multicast.protocol.words import (
    Destination,
    Destruction,
    LetGo,
    Limits,
    Message,
    ProtocolError,
    Release,
    Released,
    let_go,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from sequencer.multicast.protocol.nodes import OwnedNodes
    from sequencer.multicast.protocol.party import Party
    from sequencer.multicast.protocol.transaction import Transaction
    from sequencer.multicast.protocol.words import Dequeued, Request


def _unobserved(_name: str) -> None:
    """Nobody has to know which names are used."""


class Bus(ABC):
    """Peers by name, made when first named, and a line for every sender.

    Nodes (addressable objects of peers) are written `@name`, as destinations too.

    `before_use` is called with a name before its peer or its line is looked up, to be used or
    changed: idle ones that are kept elsewhere are put in then. It may use the bus, which calls it
    for that, too. `floor`: new clocks and lines start there, above those that were forgotten.
    """

    transaction_type: ClassVar[type[Transaction]]
    line_type: ClassVar[type[SenderLine]] = SenderLine

    def __init__(
        self, limits: Limits | None = None, before_use: Callable[[str], None] = _unobserved
    ) -> None:
        self.limits = limits or Limits()
        self.before_use = before_use
        self.floor = 0
        self.lines: dict[str, SenderLine] = {}
        self.parties: dict[str, Party] = {}
        self.owners: dict[str, str] = {}
        self.let_go: tuple[LetGo, ...] = ()
        self._shared_parties: set[str] = set()
        self._shared_lines: set[str] = set()

    @abstractmethod
    def _new_party(self, name: str) -> Party:
        """The party that answers requests under this name."""

    @abstractmethod
    def keeper(self, owner: str) -> str:
        """Who answers for an owner's nodes."""

    def kept_nodes(self, owner: str) -> OwnedNodes:
        """The nodes of the party that answers for an owner's, to be changed."""
        nodes: OwnedNodes = self.party(self.keeper(owner)).nodes
        return nodes

    def create_node(self, node: str, owner: str) -> None:
        """Let `owner` have a node. Raises ProtocolError if the name was used before."""
        if node in self.owners:
            raise ProtocolError(f"node {node} exists or existed; take another name")
        self.kept_nodes(owner).create(node)
        self.owners[node] = owner

    def send(
        self,
        message: Hashable,
        sender: str,
        to: Iterable[str],
        handles: Iterable[str] = (),
        payload: Hashable = None,
    ) -> Transaction:
        """Start a message to peers and `@nodes`, with handles to `@nodes`; the steps come next.

        Raises ProtocolError for a node that never was.
        """
        destinations = tuple(
            Destination(self._owner(name), _bare(name)) if name[:1] == "@" else Destination(name)
            for name in to
        )
        passed = tuple(map(_bare, handles))
        owners = tuple(map(self._owner, passed))
        task = Message(message, sender, destinations, passed, owners, payload)
        return self.line(sender).send(task)

    def destroy(self, message: Hashable, node: str) -> Transaction:
        """Start to destroy a node; its owner sends the notice, which has the id `message`."""
        owner = self._owner(node)
        return self.line(owner).send(Destruction(message, owner, _bare(node)))

    def release(self, peer: str, node: str) -> None:
        """Let a peer give back its handle to a node, if it has one; who keeps it hears later."""
        keeper = self.keeper(self._owner(node))
        self.let_go += self.party(peer).release(_bare(node), keeper)

    def send_release(self, message: Hashable, sender: str, peer: str, node: str) -> Transaction:
        """Start a release of `peer`'s handle that has its place among the sender's messages."""
        self._owner(node)
        return self.line(sender).send(Release(message, sender, peer, _bare(node)))

    def requests(self) -> list[Request]:
        """All steps that can be carried out now, in any order."""
        asked = [request for line in self.lines.values() for request in line.requests()]
        return [*asked, *self.let_go]

    def do(self, request: Request) -> list[Transaction]:
        """Carry out one step and hand over its replies; returns the transactions that ended."""
        if isinstance(request, LetGo):
            at = self.let_go.index(request)
            self.let_go = (*self.let_go[:at], *self.let_go[at + 1 :])
            self.party(request.peer).handle(request)
            return []
        self.line(request.transaction.sender).asked(request)
        ended = []
        for reply in self.party(request.peer).handle(request):
            moved = self.line(reply.transaction.sender).receive(reply)
            ended += [transaction for transaction in moved if transaction.ended]
        return ended

    def run(self) -> None:
        """Carry out steps until none is left: all messages sent so far are queued."""
        while requests := self.requests():
            for request in requests:
                self.do(request)

    def front(self, peer: str) -> bool:
        """Return whether the peer has something to dequeue."""
        return peer in self.parties and self.parties[peer].front() is not None

    def dequeue(self, peer: str) -> Dequeued | None:
        """The next delivery of a peer; None if nothing is ready."""
        delivery: Dequeued | None = self.party(peer).dequeue()
        if isinstance(delivery, Released):
            keeper = self.keeper(self._owner(delivery.node))
            clock = self.party(peer).clock
            self.let_go += let_go(peer, keeper, delivery.node, delivery.count, clock)
        return delivery

    def party(self, name: str) -> Any:
        """Who answers under this name, to be changed: made if new, copied if a fork shares it."""
        self.before_use(name)
        if name not in self.parties:
            self.parties[name] = self._new_party(name)
        elif name in self._shared_parties:
            self._shared_parties.discard(name)
            self.parties[name] = self.parties[name].copy()
        return self.parties[name]

    def line(self, sender: str) -> SenderLine:
        """The sender's line, to be changed: made if it is new, copied if a fork shares it."""
        self.before_use(sender)
        if sender not in self.lines:
            self.lines[sender] = self.line_type(
                sender, self.transaction_type, in_flight_max=self.limits.in_flight_max
            )
            self.lines[sender].serial = self.floor
        elif sender in self._shared_lines:
            self._shared_lines.discard(sender)
            self.lines[sender] = self.lines[sender].copy()
        return self.lines[sender]

    def forget(self, name: str) -> None:
        """Drop a peer and sender that nobody knows anything of any more."""
        self.parties.pop(name, None)
        self.lines.pop(name, None)

    def fork(self) -> Self:
        """An independent bus in the same state; what neither changes stays shared."""
        other = type(self)(self.limits, self.before_use)
        other.floor = self.floor
        other.parties, other.lines = self.parties.copy(), self.lines.copy()
        other.owners, other.let_go = self.owners.copy(), self.let_go
        self._shared_parties, self._shared_lines = set(self.parties), set(self.lines)
        other._shared_parties = set(self.parties)  # noqa: SLF001 -- of the same class
        other._shared_lines = set(self.lines)  # noqa: SLF001 -- likewise
        return other

    def state(self) -> tuple[Any, ...]:
        """All there is to know: tuples of frozen values; `load` takes them back."""
        parties = tuple((name, party.state()) for name, party in sorted(self.parties.items()))
        lines = tuple((name, line.state()) for name, line in sorted(self.lines.items()))
        let_go = tuple(sorted(self.let_go, key=repr))
        return (parties, lines, tuple(sorted(self.owners.items())), let_go, self.floor)

    def load(self, state: tuple[Any, ...]) -> None:
        """Become what `state` was taken from; the limits stay."""
        parties, lines, owners, self.let_go, self.floor = state
        self.parties, self.lines, self.owners = {}, {}, dict(owners)
        self._shared_parties, self._shared_lines = set(), set()
        for name, inner in parties:
            self.party(name).load(inner)
        for name, inner in lines:
            self.line(name).load(inner)

    def _owner(self, node: str) -> str:
        if _bare(node) not in self.owners:
            raise ProtocolError(f"there is no node {node}; nothing was sent")
        return self.owners[_bare(node)]


class ClockBus(Bus):
    """A bus by bus1: every queue has its own clock, and nothing is shared by all.

    >>> bus = ClockBus()
    >>> sent = bus.send("m1", "ann", ["bob", "eve"])
    >>> bus.run()
    >>> bus.dequeue("bob").stamp
    Stamp(timestamp=1, sender='ann')
    """

    transaction_type: ClassVar[type[Transaction]] = ClockTransaction
    peer_type: ClassVar[type[ClockPeer]] = ClockPeer

    def _new_party(self, name: str) -> ClockPeer:
        peer = self.peer_type(name, self.limits)
        peer.queue.sync(self.floor)
        return peer

    def forget(self, name: str) -> None:
        """Drop a peer; one that comes under its name starts above its clock."""
        if name in self.parties:
            self.floor = max(self.floor, self.party(name).queue.clock)
        super().forget(name)

    def keeper(self, owner: str) -> str:
        """The owner itself."""
        return owner


class CounterBus(Bus):
    """A bus by kdbus: one counter for all messages.

    >>> bus = CounterBus()
    >>> sent = bus.send("m1", "ann", ["bob", "eve"])
    >>> bus.run()
    >>> bus.dequeue("eve").stamp
    Stamp(timestamp=1, sender='ann')
    """

    transaction_type: ClassVar[type[Transaction]] = CounterTransaction
    peer_type: ClassVar[type[CounterPeer]] = CounterPeer
    counter_type: ClassVar[type[GlobalCounter]] = GlobalCounter

    def _new_party(self, name: str) -> GlobalCounter | CounterPeer:
        limits = self.limits
        if name == COUNTER:
            return self.counter_type(nodes_max=limits.nodes_max, holders_max=limits.holders_max)
        return self.peer_type(name, entries_max=limits.entries_max)

    def forget(self, name: str) -> None:
        """Drop a sender; one that comes under its name numbers on, as queues may have copies."""
        if name in self.lines:
            self.floor = max(self.floor, self.line(name).serial)
        super().forget(name)

    def keeper(self, owner: str) -> str:
        """The counter."""
        del owner
        return COUNTER


def _bare(node: str) -> str:
    return node.removeprefix("@")
