"""Nodes and handles to them: what an owner and what a receiver of handles keep.

A node is an addressable object of a peer here; in `overlaps` it is what hosts atoms.

Source: bus1 wiki, "Message ordering", section "Other events". A node is destroyed by a message
like any other: a notice, from the node's owner to itself and to everyone who has, or is about to
get, a handle. The notice's stamp is the destruction timestamp, so all questions about "before the
destruction" are answered by the order of stamps and queues that there is anyway.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from sequencer.multicast.protocol.words import (
    HANDLES_MAX,
    HOLDERS_MAX,
    NODES_MAX,
    LimitError,
    ProtocolError,
    Stamp,
    clone,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class UnknownNodeError(ProtocolError):
    """The owner has no such node and remembers none. Nothing was changed; check the name."""


@dataclass(slots=True)
class _Node:
    holders: dict[str, int] = field(default_factory=dict)
    destroying: bool = False
    destroyed: Stamp | None = None
    waiting: list[Any] = field(default_factory=list)

    def state(self) -> tuple[Any, ...]:
        waiting = tuple(self.waiting)
        return (tuple(sorted(self.holders.items())), self.destroying, self.destroyed, waiting)


class OwnedNodes:
    """The nodes of one owner: alive, in destruction (no stamp yet), or destroyed at a stamp.

    Bounds: `nodes_max` nodes, destroyed ones included until they are forgotten; `holders_max`
    peers with a handle to one node, and as many registrations waiting for one stamp.

    Each message that may give a peer a handle registers it once. Peers count the registrations that
    they know of, and take back this many when letting go (`LetGo`): one with any left is a holder.
    """

    def __init__(
        self, owner: str, *, nodes_max: int = NODES_MAX, holders_max: int = HOLDERS_MAX
    ) -> None:
        self.owner = owner
        self.nodes_max = nodes_max
        self.holders_max = holders_max
        self._nodes: dict[str, _Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def create(self, node: str) -> None:
        """Add a node. A name is used once: ProtocolError if it exists or is remembered."""
        if node in self._nodes:
            raise ProtocolError(f"{self.owner}: node {node} exists or existed; take another name")
        if len(self._nodes) >= self.nodes_max:
            raise LimitError(f"{self.owner}: {self.nodes_max} nodes exist; {node} was not created")
        self._nodes[node] = _Node()

    def forget(self, node: str) -> None:
        """Drop a destroyed node; from now on it is unknown, and its name is free again."""
        if self._get(node).destroyed is None:
            raise ProtocolError(f"{self.owner}: node {node} is not destroyed; it was kept")
        del self._nodes[node]

    def all_destroyed(self) -> tuple[str, ...]:
        """The nodes whose destruction has a stamp."""
        return tuple(name for name, record in self._nodes.items() if record.destroyed is not None)

    def destroyed(self, node: str) -> Stamp | None:
        """The destruction's stamp, None while there is none. Raises UnknownNodeError."""
        return self._get(node).destroyed

    def register(self, node: str, holders: Iterable[str], asker: Any) -> bool:
        """Note the peers that a message in flight carries a handle to; True if answered.

        Afterwards `destroyed` says whether the handle is dead. False: the node is being
        destroyed at a stamp not known yet; `asker` is kept, and `finish` hands it back.
        """
        record = self._get(node)
        if record.destroyed is not None:
            return True
        if record.destroying:
            if len(record.waiting) >= self.holders_max:
                raise LimitError(f"{self.owner}: too many messages wait for {node}'s destruction")
            record.waiting.append(asker)
            return False
        self.add_holders([node], holders)
        return True

    def add_holders(self, nodes: Iterable[str], holders: Iterable[str]) -> None:
        """Note that these peers have handles, or may get them. LimitError: none was added."""
        records, more = {node: self._get(node) for node in nodes}, dict.fromkeys(holders)
        for node, record in records.items():
            if len(record.holders) + len(more.keys() - record.holders.keys()) > self.holders_max:
                raise LimitError(
                    f"{self.owner}: node {node} may have {self.holders_max} holders; none was added"
                )
        for record in records.values():
            for holder in more:
                record.holders[holder] = record.holders.get(holder, 0) + 1

    def let_go(self, node: str, holder: str, count: int) -> None:
        """Take back registrations of a peer; nothing happens where the node is gone."""
        record = self._nodes.get(node)
        if record is None or holder not in record.holders:
            return
        record.holders[holder] -= count
        if record.holders[holder] <= 0:
            del record.holders[holder]

    def holders(self, node: str) -> tuple[str, ...]:
        """Who has a handle, or may get one, sorted."""
        return tuple(sorted(self._get(node).holders))

    def is_dying(self, node: str) -> bool:
        """Return whether the node's destruction has started, with or without a stamp yet."""
        return self._get(node).destroying

    def begin(self, node: str) -> tuple[str, ...]:
        """Start a destruction; returns the holders, who are to be notified.

        From here until `finish`, `register` adds nobody, so the list stays complete.
        """
        record = self._get(node)
        if record.destroying:
            raise ProtocolError(f"{self.owner}: node {node} is already being destroyed")
        record.destroying = True
        return self.holders(node)

    def finish(self, node: str, stamp: Stamp) -> tuple[Any, ...]:
        """Set the destruction's stamp; returns the registrations that waited for it."""
        record = self._get(node)
        waiting = tuple(record.waiting)
        record.destroyed = stamp
        record.waiting = []
        record.holders = {}
        return waiting

    def state(self) -> tuple[Any, ...]:
        """All there is to know, in plain tuples."""
        return tuple((name, self._nodes[name].state()) for name in sorted(self._nodes))

    def copy(self) -> Self:
        """Independent, in the same state."""
        other = clone(self)
        if self._nodes:
            other.load(self.state())
        else:
            other._nodes = {}  # noqa: SLF001 -- of the same class
        return other

    def load(self, state: tuple[Any, ...]) -> None:
        """Become what `state` was taken from."""
        self._nodes = {
            name: _Node(dict(holders), destroying, destroyed and Stamp(*destroyed), list(waiting))
            for name, (holders, destroying, destroyed, waiting) in state
        }

    def _get(self, node: str) -> _Node:
        if node not in self._nodes:
            raise UnknownNodeError(f"{self.owner}: there is no node {node}")
        return self._nodes[node]


class HandleTable:
    """The handles of one receiver, installed and destroyed in the order of its queue.

    A handle that arrives is valid unless the node's notice was dequeued before it. That is
    remembered only while a message that carries the handle has a block or an entry in the queue
    (`expect` to `receive` or `cancel`): a message that comes later learns of the destruction
    when it registers. `handles_max` bounds the handles held plus those on the way.

    `registered` counts what the nodes' keepers have noted for this receiver, to be taken back when
    it lets go of a handle; a handle that is on its way keeps it noted.
    """

    def __init__(self, holder: str, *, handles_max: int = HANDLES_MAX) -> None:
        self.holder = holder
        self.handles_max = handles_max
        self._held: set[str] = set()
        self._expected: dict[str, int] = {}
        self._gone: set[str] = set()
        self._registered: dict[str, int] = {}

    @property
    def held(self) -> frozenset[str]:
        """The nodes that the receiver has a valid handle to."""
        return frozenset(self._held)

    def expect(self, handles: Iterable[str]) -> None:
        """A message with these handles has announced itself with a block.

        One without handles takes no room: nothing is refused for it.
        """
        handles = tuple(handles)
        if handles and len(self._held) + len(self._expected) + len(handles) > self.handles_max:
            raise LimitError(
                f"{self.holder}: no room for {len(handles)} more of {self.handles_max} handles"
            )
        self._add(handles)

    def split(self, handles: Iterable[str], copies: int) -> None:
        """The announced message turned into `copies` deliveries, each with all the handles."""
        for _ in range(copies - 1):
            self._add(handles)

    def cancel(self, handles: Iterable[str]) -> None:
        """One announced delivery of these handles is over."""
        for node in handles:
            self._expected[node] -= 1
            if self._expected[node] <= 0:
                del self._expected[node]
                self._gone.discard(node)

    def receive(
        self, handles: Iterable[str], dead: Iterable[str]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Install the handles of a message that is dequeued now; returns (valid, invalid).

        `dead` are those that were found destroyed when the message registered.
        """
        handles = tuple(handles)
        refused = self._gone.union(dead)
        valid = tuple(node for node in handles if node not in refused)
        self._held.update(valid)
        self.cancel(handles)
        for node in refused.intersection(handles):
            self._forget_if_gone(node)
        return valid, tuple(node for node in handles if node in refused)

    def registered(self, handles: Iterable[str]) -> None:
        """A message that is here now, or was cancelled, had registered these once each."""
        for node in handles:
            self._registered[node] = self._registered.get(node, 0) + 1

    def release(self, node: str) -> int:
        """Give a handle back; returns the registrations that may be taken back."""
        self._held.discard(node)
        return 0 if node in self._expected else self._registered.pop(node, 0)

    def release_all(self) -> tuple[tuple[str, int], ...]:
        """The same for all: nodes and registrations, sorted."""
        nodes = sorted(self._held | self._registered.keys())
        return tuple((node, count) for node in nodes if (count := self.release(node)))

    def notice(self, node: str) -> bool:
        """The node's notice is dequeued now; returns whether its handle was held."""
        if node in self._expected:
            self._gone.add(node)
        known = node in self._held
        self._held.discard(node)
        self._forget_if_gone(node)
        return known

    def state(self) -> tuple[Any, ...]:
        """All there is to know, in plain tuples."""
        expected, registered = sorted(self._expected.items()), sorted(self._registered.items())
        held, gone = sorted(self._held), sorted(self._gone)
        return (tuple(held), tuple(expected), tuple(gone), tuple(registered))

    def copy(self) -> Self:
        """Independent, in the same state."""
        other = clone(self)
        other._held, other._gone = self._held.copy(), self._gone.copy()  # noqa: SLF001 -- likewise
        other._expected = self._expected.copy()  # noqa: SLF001 -- likewise
        other._registered = self._registered.copy()  # noqa: SLF001 -- likewise
        return other

    def load(self, state: tuple[Any, ...]) -> None:
        """Become what `state` was taken from."""
        held, expected, gone, registered = state
        self._held, self._expected, self._gone = set(held), dict(expected), set(gone)
        self._registered = dict(registered)

    def _forget_if_gone(self, node: str) -> None:
        """Of a destroyed node nobody keeps what could be taken back."""
        if node not in self._expected:
            self._registered.pop(node, None)

    def _add(self, handles: Iterable[str]) -> None:
        for node in handles:
            self._expected[node] = self._expected.get(node, 0) + 1
