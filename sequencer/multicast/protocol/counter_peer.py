"""The two parties that kdbus' protocol asks: the global counter, and a receiving peer.

Source: kdbus, "Message Ordering". Nodes and handles are not in that text; with one counter they
need little. The counter keeps the nodes, so whether a node is destroyed before a message is
decided in the step that gives the message its number.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Self

from sequencer.multicast.protocol.counter_messages import (
    COUNTER,
    Assigned,
    Commit,
    CopyIn,
    Drop,
    Increment,
    Read,
    Value,
)
from sequencer.multicast.protocol.counter_queue import CounterQueue
from sequencer.multicast.protocol.nodes import OwnedNodes, UnknownNodeError
from sequencer.multicast.protocol.party import Party
from sequencer.multicast.protocol.words import (
    ENTRIES_MAX,
    HOLDERS_MAX,
    NODES_MAX,
    Delivery,
    Dequeued,
    Done,
    Kind,
    LetGo,
    LimitError,
    Notice,
    ProtocolError,
    Refusal,
    Refused,
    Released,
    Stamp,
    clone,
    let_go,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sequencer.multicast.protocol.counter_queue import Instance
    from sequencer.multicast.protocol.words import Parcel, Reply, Request


class GlobalCounter(Party):
    """One number for all messages, and the nodes that messages are ordered against."""

    def __init__(self, *, nodes_max: int = NODES_MAX, holders_max: int = HOLDERS_MAX) -> None:
        self.value = 0
        self.nodes = OwnedNodes("the counter", nodes_max=nodes_max, holders_max=holders_max)

    @property
    def needed(self) -> bool:
        """Always: there is one for all."""
        return True

    def handle(self, request: Request) -> tuple[Reply, ...]:
        """Carry out `Read` or `Increment`, each of them one atomic step."""
        try:
            if isinstance(request, Read):
                return (self._read(request),)
            if isinstance(request, Increment):
                return (self._increment(request),)
            if isinstance(request, LetGo):
                self.nodes.let_go(request.node, request.transaction.sender, request.count)
                return ()
        except LimitError as error:
            return (Refused(request.transaction, COUNTER, Refusal.NO_ROOM, str(error)),)
        except UnknownNodeError as error:
            return (Refused(request.transaction, COUNTER, Refusal.BAD_DESTINATION, str(error)),)
        raise ProtocolError(f"the counter does not know {request}")

    def state(self) -> tuple[Any, ...]:
        """All there is to know; `load` takes it back."""
        return (self.value, self.nodes.state())

    def load(self, state: tuple[Any, ...]) -> None:
        """Become what `state` was taken from."""
        self.value, nodes = state
        self.nodes.load(nodes)

    def copy(self) -> Self:
        """An independent counter in the same state."""
        other = clone(self)
        other.nodes = self.nodes.copy()
        return other

    def _read(self, request: Read) -> Reply:
        for node in request.nodes:
            self.nodes.destroyed(node)
        holders: tuple[str, ...] = ()
        if request.destroys is not None:
            if self.nodes.is_dying(request.destroys):
                detail = f"node {request.destroys} is destroyed, or being destroyed, already"
                return Refused(request.transaction, COUNTER, Refusal.DESTROYED_NODE, detail)
            holders = self.nodes.begin(request.destroys)
        return Value(request.transaction, COUNTER, self.value, holders)

    def _increment(self, request: Increment) -> Reply:
        gone = tuple(n for n in request.nodes if self.nodes.destroyed(n) is not None)
        dead = tuple(n for n in request.handles if self.nodes.destroyed(n) is not None)
        missing: tuple[str, ...] = ()
        if request.destroys is not None:
            holders = self.nodes.holders(request.destroys)
            missing = tuple(h for h in holders if h not in request.receivers)
        if missing or not (request.plain or len(gone) < len(request.nodes)):
            return Assigned(request.transaction, COUNTER, None, gone, dead, missing)
        alive = [node for node in request.handles if node not in dead]
        self.nodes.add_holders(alive, request.receivers)
        self.value += 1
        stamp = Stamp(self.value, request.transaction.sender)
        if request.destroys is not None:
            self.nodes.finish(request.destroys, stamp)
        return Assigned(request.transaction, COUNTER, stamp, gone, dead, ())


class CounterPeer(Party):
    """A receiver: its queue, and the handles that it holds."""

    queue_type = CounterQueue

    def __init__(self, name: str, *, entries_max: int = ENTRIES_MAX) -> None:
        self.name = name
        self.queue = self.queue_type(name, entries_max=entries_max)
        self._held: frozenset[str] = frozenset()
        self.registered: dict[str, int] = {}
        self._coming: Counter[str] = Counter()
        """For each node the copies in the queue that carry its handle."""

    @property
    def needed(self) -> bool:
        """Never: the counter keeps the nodes."""
        return False

    @property
    def held(self) -> frozenset[str]:
        """The nodes that it has a valid handle to."""
        return self._held

    def handle(self, request: Request) -> tuple[Reply, ...]:
        """Carry out `CopyIn`, `Commit` or `Drop`, each of them one atomic step."""
        if request.peer != self.name:
            raise ProtocolError(f"{self.name} was asked to do the step of {request.peer}")
        token = request.transaction
        if isinstance(request, CopyIn):
            # A destruction that has begun is not refused: its notices find room beyond the limit.
            limited = request.parcels[0].kind is not Kind.NOTICE
            try:
                self.queue.copy_in(token, request.seq_lower, request.parcels, limited=limited)
            except LimitError as error:
                return (Refused(token, self.name, Refusal.NO_ROOM, str(error)),)
            self._coming.update(request.parcels[0].handles)
        elif isinstance(request, Commit):
            handles = self.queue.contents(token)[0].handles
            contents = [(parcel, request.dead) for parcel in request.parcels]
            self.queue.commit(token, request.stamp, contents)
            self._register(node for node in handles if node not in request.dead)
            if not contents:
                self._gone(handles)
        elif isinstance(request, Drop):
            handles = self.queue.contents(token)[0].handles
            self.queue.drop(token)
            self._gone(handles)
        else:
            raise ProtocolError(f"{self.name} does not know {request}")
        return (Done(token, self.name),)

    @property
    def awaited(self) -> str | None:
        """Whose copy is the least of the queue and not committed."""
        token: Any = self.queue.uncommitted
        return None if token is None else str(token.sender)

    def front(self) -> Stamp | None:
        """The stamp of what can be dequeued now."""
        front = self.queue.front()
        return None if front is None else front[0]

    def dequeue(self) -> Dequeued | None:
        """Take out the front; None if there is none, or the front is not committed."""
        queued = len(self.queue)
        front = self.queue.dequeue()
        if front is None:
            return None
        stamp, (parcel, dead) = front
        if len(self.queue) < queued:  # else there are more deliveries of this message
            self._gone(parcel.handles)
        if parcel.kind is Kind.NOTICE:
            known = parcel.node in self._held
            self._held -= {parcel.node}
            self.registered.pop(parcel.node, None)
            return Notice(parcel.message, stamp, parcel.node, known)
        if parcel.kind is Kind.RELEASE:
            self._held -= {parcel.node}
            return Released(parcel.message, stamp, parcel.node, self._take_back(parcel.node))
        valid = tuple(node for node in parcel.handles if node not in dead)
        invalid = tuple(node for node in parcel.handles if node in dead)
        self._held |= frozenset(valid)
        return Delivery(parcel.message, stamp, parcel.node, valid, invalid, parcel.payload)

    def queued(self) -> Iterator[Parcel]:
        """What lies in the queue, in the order of the four cases."""
        for copy in self.queue.instances():
            yield from _parcels(copy)

    def release(self, node: str, keeper: str) -> tuple[LetGo, ...]:
        """Give a handle back; a later delivery may bring it again."""
        self._held -= {node}
        return let_go(self.name, keeper, node, self._take_back(node))

    def release_all(self) -> tuple[tuple[str, int], ...]:
        """Give all handles back: nodes and the registrations that may be taken back, sorted."""
        nodes = sorted(self.registered)
        self._held = frozenset()
        return tuple((node, count) for node in nodes if (count := self._take_back(node)))

    def state(self) -> tuple[Any, ...]:
        """All there is to know; `load` takes it back."""
        return (
            self.queue.state(),
            tuple(sorted(self._held)),
            tuple(sorted(self.registered.items())),
        )

    def load(self, state: tuple[Any, ...]) -> None:
        """Become what `state` was taken from."""
        queue, held, registered = state
        self.queue.load(queue)
        self._held, self.registered = frozenset(held), dict(registered)
        copies = self.queue.instances()
        self._coming = Counter(node for copy in copies for node in _parcels(copy)[0].handles)

    def copy(self) -> Self:
        """An independent peer in the same state."""
        other = clone(self)
        other.queue = self.queue.copy()
        other.registered = self.registered.copy()
        other._coming = self._coming.copy()  # noqa: SLF001 -- of the same class
        return other

    def _register(self, handles: Iterable[str]) -> None:
        """Count what the counter noted for this peer when it gave the message its number."""
        for node in handles:
            self.registered[node] = self.registered.get(node, 0) + 1

    def _gone(self, handles: Iterable[str]) -> None:
        """A copy with these handles has left the queue."""
        for node in handles:
            self._coming[node] -= 1
            if not self._coming[node]:
                del self._coming[node]

    def _take_back(self, node: str) -> int:
        """The registrations for a handle, if none is on its way."""
        return 0 if node in self._coming else self.registered.pop(node, 0)


def _parcels(copy: Instance) -> tuple[Parcel, ...]:
    """What a copy has to give out, without what its commit added."""
    return copy.contents if copy.stamp is None else tuple(parcel for parcel, _ in copy.contents)
