"""A peer of the multicast bus: one queue, its nodes and its handles, answering requests.

Source: bus1 wiki, "Message ordering". Each request is one atomic step. `Register` touches the
records of a node only, never the owner's queue: a transaction touches no queue but the sender's
and the destinations' (locality).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from sequencer.multicast.protocol.clock_messages import (
    Arrive,
    Begin,
    Begun,
    Block,
    Cancel,
    Clock,
    Enqueue,
    Probe,
    Register,
    Registered,
    Stamped,
    Sync,
    Tick,
)
from sequencer.multicast.protocol.clock_queue import ClockQueue
from sequencer.multicast.protocol.nodes import (
    HandleTable,
    OwnedNodes,
    UnknownNodeError,
)
from sequencer.multicast.protocol.party import Party
from sequencer.multicast.protocol.words import (
    Delivery,
    Dequeued,
    Done,
    Kind,
    LetGo,
    LimitError,
    Limits,
    Notice,
    Parcel,
    ProtocolError,
    Refusal,
    Refused,
    Released,
    Reply,
    Request,
    Stamp,
    clone,
    let_go,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class ClockPeer(Party):
    """A receiver: its queue, nodes and handles."""

    queue_type = ClockQueue

    def __init__(self, name: str, limits: Limits | None = None) -> None:
        self.name = name
        self.limits = limits = limits or Limits()
        self.queue = self.queue_type(name, entries_max=limits.entries_max)
        self.nodes = OwnedNodes(name, nodes_max=limits.nodes_max, holders_max=limits.holders_max)
        self.handles = HandleTable(name, handles_max=limits.handles_max)

    @property
    def needed(self) -> bool:
        """Whether it has nodes."""
        return len(self.nodes) > 0

    @property
    def held(self) -> frozenset[str]:
        """The nodes that it has a valid handle to."""
        return self.handles.held

    @property
    def clock(self) -> int:
        """The clock of its queue: nothing that was dequeued has a stamp above it."""
        return self.queue.clock

    @property
    def awaited(self) -> str | None:
        """Whose block is the lowest of the queue."""
        token: Any = self.queue.first_block
        return None if token is None else str(token.sender)

    def handle(self, request: Request) -> tuple[Reply, ...]:
        """Carry out one step; returns the replies that it brings about, at most one of its own.

        A `Register` for a node whose destruction has no stamp yet is answered by the step that
        gives it one, together with that step's own reply.
        """
        if request.peer != self.name:
            raise ProtocolError(f"{self.name} was asked to do the step of {request.peer}")
        try:
            return self._do(request)
        except LimitError as error:
            return (self._refused(request, Refusal.NO_ROOM, error),)
        except UnknownNodeError as error:
            return (self._refused(request, Refusal.BAD_DESTINATION, error),)

    def front(self) -> Stamp | None:
        """The stamp of what can be dequeued now."""
        entry = self.queue.front()
        return None if entry is None else entry.stamp

    def dequeue(self) -> Dequeued | None:
        """Take out the front; None if there is none, or a block precedes it."""
        entry = self.queue.dequeue()
        if entry is None:
            return None
        parcel, dead = entry.content
        if parcel.kind is Kind.NOTICE:
            known = self.handles.notice(parcel.node)
            return Notice(parcel.message, entry.stamp, parcel.node, known)
        if parcel.kind is Kind.RELEASE:
            count = self.handles.release(parcel.node)
            return Released(parcel.message, entry.stamp, parcel.node, count)
        valid, invalid = self.handles.receive(parcel.handles, dead)
        return Delivery(parcel.message, entry.stamp, parcel.node, valid, invalid, parcel.payload)

    def queued(self) -> Iterator[Parcel]:
        """What lies in the queue, in the order of stamps."""
        return (parcel for parcel, _ in self.queue.contents())

    def release_all(self) -> tuple[tuple[str, int], ...]:
        """Give all handles back: nodes and the registrations that may be taken back, sorted."""
        return self.handles.release_all()

    def release(self, node: str, keeper: str) -> tuple[LetGo, ...]:
        """Give a handle back, to the node's owner; a later delivery may bring it again."""
        return let_go(self.name, keeper, node, self.handles.release(node), self.clock)

    def state(self) -> tuple[Any, ...]:
        """All there is to know of queue, nodes and handles; `load` takes it back."""
        return (self.queue.state(), self.nodes.state(), self.handles.state())

    def load(self, state: tuple[Any, ...]) -> None:
        """Become what `state` was taken from; the limits stay."""
        queue, nodes, handles = state
        self.queue.load(queue)
        self.nodes.load(nodes)
        self.handles.load(handles)

    def copy(self) -> Self:
        """An independent peer in the same state."""
        other = clone(self)
        other.queue = self.queue.copy()
        other.nodes = self.nodes.copy()
        other.handles = self.handles.copy()
        return other

    def _refused(self, request: Request, reason: Refusal, error: Exception) -> Refused:
        node = request.node if isinstance(request, Register | Begin) else None
        return Refused(request.transaction, self.name, reason, str(error), node)

    def _do(self, request: Request) -> tuple[Reply, ...]:  # noqa: C901, PLR0911 -- a table of steps
        match request:
            case Block():
                return self._do_block(request)
            case Sync():
                return self._do_sync(request)
            case Enqueue():
                return self._do_enqueue(request)
            case Arrive():
                return self._do_arrive(request)
            case Probe():
                return self._do_probe(request)
            case Tick():
                return self._do_tick(request)
            case Register():
                return self._do_register(request)
            case Cancel():
                return self._do_cancel(request)
            case Begin():
                return self._do_begin(request)
            case LetGo():
                return self._do_let_go(request)
        raise ProtocolError(f"{self.name} does not know {request}")

    def _do_probe(self, request: Probe) -> tuple[Reply, ...]:
        return (Clock(request.transaction, self.name, self.queue.propose()),)

    def _do_block(self, request: Block) -> tuple[Reply, ...]:
        gone = self._gone(request.parcels)
        room = len(request.parcels) - len(gone)
        if not room:
            return (Clock(request.transaction, self.name, self.queue.propose(), gone),)
        announced = request.parcels[0].handles
        self.handles.expect(announced)
        try:
            # A destruction that has begun is not refused: its notices find room beyond the limit.
            reserved = 0 if request.parcels[0].kind is Kind.NOTICE else room
            clock = self.queue.block(request.transaction, request.estimate, reserved)
        except LimitError:
            self.handles.cancel(announced)
            raise
        return (Clock(request.transaction, self.name, clock, gone),)

    def _do_register(self, request: Register) -> tuple[Reply, ...]:
        if not self.nodes.register(request.node, request.holders, request):
            return ()
        return (self._registered(request),)

    def _registered(self, request: Register) -> Registered:
        stamp = self.nodes.destroyed(request.node)
        return Registered(request.transaction, self.name, request.node, stamp)

    def _do_begin(self, request: Begin) -> tuple[Reply, ...]:
        if self.nodes.is_dying(request.node):
            detail = f"{self.name}: node {request.node} is destroyed, or being destroyed, already"
            reason = Refusal.DESTROYED_NODE
            return (Refused(request.transaction, self.name, reason, detail, request.node),)
        return (Begun(request.transaction, self.name, self.nodes.begin(request.node)),)

    def _do_tick(self, request: Tick) -> tuple[Reply, ...]:
        self.queue.sync(request.maximum)
        stamp = Stamp(self.queue.tick(), self.name)
        stamped = Stamped(request.transaction, self.name, stamp)
        return (stamped, *self._destroy(request.destroys, stamp))

    def _do_sync(self, request: Sync) -> tuple[Reply, ...]:
        self.queue.sync(request.stamp.timestamp)
        gone = tuple(
            node
            for node in request.nodes
            if (end := self.nodes.destroyed(node)) is not None and end < request.stamp
        )
        return (Done(request.transaction, self.name, gone),)

    def _do_enqueue(self, request: Enqueue) -> tuple[Reply, ...]:
        contents = [(parcel, request.dead) for parcel in request.parcels]
        self.queue.queue(request.transaction, request.stamp, contents)
        passed = request.parcels[0].handles
        self.handles.split(passed, len(contents))
        self.handles.registered(node for node in passed if node not in request.dead)
        return (Done(request.transaction, self.name),)

    def _do_cancel(self, request: Cancel) -> tuple[Reply, ...]:
        self.queue.unblock(request.transaction)
        self.handles.cancel(request.handles)
        self.handles.registered(request.registered)
        return (Done(request.transaction, self.name),)

    def _do_let_go(self, request: LetGo) -> tuple[Reply, ...]:
        self.nodes.let_go(request.node, request.transaction.sender, request.count)
        self.queue.sync(request.clock)
        return ()

    def _do_arrive(self, request: Arrive) -> tuple[Reply, ...]:
        gone = self._gone(request.parcels)
        left = [(p, ()) for p in request.parcels if p.destination not in gone]
        if not left:
            return (Stamped(request.transaction, self.name, None, gone),)
        sender, limited = request.transaction.sender, request.destroys is None
        stamp = self.queue.arrive(sender, request.estimate, left, limited=limited)
        stamped = Stamped(request.transaction, self.name, stamp, gone)
        return (stamped, *self._destroy(request.destroys, stamp))

    def _destroy(self, node: str | None, stamp: Stamp) -> tuple[Reply, ...]:
        if node is None:
            return ()
        return tuple(self._registered(asker) for asker in self.nodes.finish(node, stamp))

    def _gone(self, parcels: Iterable[Parcel]) -> tuple[str, ...]:
        """Destination nodes whose destruction has a stamp: it is below any stamp to come."""
        return tuple(
            node
            for p in parcels
            if (node := p.destination) is not None and self.nodes.destroyed(node) is not None
        )
