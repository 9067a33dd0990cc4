"""bus1's multicast in one process: peers, and a line for every sender.

The bus only looks up names and hands each step to its peer and each reply to its sender; the
order of steps is the caller's. `run` takes them as they come; a scheduler can take them in any
order and put sends and dequeues anywhere between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from sequencer.clock_messages import (
    Delivery,
    Destination,
    Destruction,
    Message,
    Notice,
    Request,
)
from sequencer.clock_peer import Limits, Peer
from sequencer.clock_queue import ProtocolError
from sequencer.clock_sender import SenderLine
from sequencer.clock_transaction import ENDED, Transaction

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


class ClockBus:
    """Peers by name, made when first named. Nodes are written `@name`, as destinations too.

    >>> bus = ClockBus()
    >>> sent = bus.send("m1", "ann", ["bob", "eve"])
    >>> bus.run()
    >>> bus.dequeue("bob").stamp
    Stamp(timestamp=1, sender='ann')
    """

    peer_type = Peer
    line_type = SenderLine

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits
        self.peers: dict[str, Peer] = {}
        self.lines: dict[str, SenderLine] = {}
        self.owners: dict[str, str] = {}
        self._shared: set[tuple[str, str]] = set()

    def create_node(self, node: str, owner: str) -> None:
        """Let `owner` have a node. Raises ProtocolError if the name was used before."""
        if node in self.owners:
            raise ProtocolError(f"node {node} exists or existed; take another name")
        self.peer(owner).create_node(node)
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
        passed = tuple(self._node(handle) for handle in handles)
        destinations = tuple(
            Destination(self._owner(self._node(name)), self._node(name))
            if name.startswith("@")
            else Destination(name)
            for name in to
        )
        owners = tuple(self._owner(node) for node in passed)
        task = Message(message, sender, destinations, passed, owners, payload)
        return self.line(sender).send(task)

    def destroy(self, message: Hashable, node: str) -> Transaction:
        """Start to destroy a node; its owner sends the notice, which has the id `message`."""
        owner = self._owner(self._node(node))
        return self.line(owner).send(Destruction(message, owner, self._node(node)))

    def requests(self) -> list[Request]:
        """All steps that can be carried out now, in any order."""
        return [request for line in self.lines.values() for request in line.requests()]

    def do(self, request: Request) -> list[Transaction]:
        """Carry out one step and hand over its replies; returns the transactions that ended."""
        self.line(request.transaction.sender).asked(request)
        ended = []
        for reply in self.peer(request.peer).handle(request):
            moved = self.line(reply.transaction.sender).receive(reply)
            ended += [transaction for transaction in moved if transaction.phase in ENDED]
        return ended

    def run(self) -> None:
        """Carry out steps until none is left: all messages sent so far are queued."""
        while requests := self.requests():
            self.do(requests[0])

    def dequeue(self, peer: str) -> Delivery | Notice | None:
        """The next delivery of a peer; None if there is none, or a block precedes it."""
        return self.peer(peer).dequeue()

    def peer(self, name: str) -> Peer:
        """The peer, to be changed: made if it is new, copied if a fork shares it."""
        if name not in self.peers:
            self.peers[name] = self.peer_type(name, self.limits)
        elif ("peer", name) in self._shared:
            self._shared.discard(("peer", name))
            self.peers[name] = self.peers[name].copy()
        return self.peers[name]

    def line(self, sender: str) -> SenderLine:
        """The sender's line, to be changed: made if it is new, copied if a fork shares it."""
        if sender not in self.lines:
            self.lines[sender] = self.line_type(sender)
        elif ("line", sender) in self._shared:
            self._shared.discard(("line", sender))
            self.lines[sender] = self.lines[sender].copy()
        return self.lines[sender]

    def fork(self) -> Self:
        """An independent bus in the same state; what neither changes stays shared."""
        other = type(self)(self.limits)
        other.peers, other.lines = self.peers.copy(), self.lines.copy()
        other.owners = self.owners.copy()
        parts = {("peer", name) for name in self.peers} | {("line", name) for name in self.lines}
        self._shared = parts
        other._shared = parts.copy()  # noqa: SLF001 -- of the same class
        return other

    def _owner(self, node: str) -> str:
        if node not in self.owners:
            raise ProtocolError(f"there is no node {node}; nothing was sent")
        return self.owners[node]

    @staticmethod
    def _node(name: str) -> str:
        return name.removeprefix("@")
