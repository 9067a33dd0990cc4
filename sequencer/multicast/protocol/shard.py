"""A part of the bus: the peers and senders that live in one place, and messages to other places.

Steps for a peer of the same shard are carried out at once; the others go out as `Request`, and
come back as `Reply`. What goes out must arrive once, and in order from each shard to each other;
clocks would not need the order. A multicast by clocks is ready after five trips (block, clock,
sync, done, enqueue), one to a single queue after one, by the counter after seven (read, value,
copy, done, increment, assigned, commit), however many messages are on their way. Trips within a
shard do not count.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sequencer.multicast.protocol.words import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sequencer.multicast.protocol.bus import Bus
    from sequencer.multicast.protocol.sender_line import SenderLine
    from sequencer.multicast.protocol.transaction import Transaction
    from sequencer.multicast.protocol.words import Dequeued, Reply, Task


@dataclass(frozen=True, slots=True)
class Pumped:
    """What came of a batch: messages for other shards, ended transactions, deliveries per peer."""

    outgoing: tuple[Request | Reply, ...]
    ended: tuple[Transaction, ...]
    deliveries: tuple[tuple[str, Dequeued], ...]


class Shard:
    """The names of a bus for which `holds(name)` is true, peers and senders alike.

    All shards of a bus must agree on who holds a name, for ever. The counter of a `CounterBus`
    is a name, too (`COUNTER`).
    """

    def __init__(self, bus: Bus, holds: Callable[[str], bool]) -> None:
        self.bus = bus
        self.holds = holds

    def pump(self, sends: Iterable[Task], arrived: Iterable[Request | Reply] = ()) -> Pumped:
        """Start these sends of senders held here, take what arrived, and go on as far as it goes.

        Both are taken in their order, `sends` first, and the result depends on nothing else, so
        a batch that is repeated from the same state gives the same.
        """
        outgoing: list[Request | Reply] = []
        ended: list[Transaction] = []
        peers: dict[str, None] = {}
        todo: deque[Request | Reply] = deque()
        for task in sends:
            line = self.bus.line(task.sender)
            self._ask(line, [line.send(task)], todo)
            self._go_on(todo, outgoing, ended, peers)
        todo.extend(arrived)
        self._go_on(todo, outgoing, ended, peers)
        deliveries = [(peer, delivery) for peer in peers for delivery in self._ready(peer)]
        return Pumped(tuple(outgoing), tuple(ended), tuple(deliveries))

    def _go_on(
        self,
        todo: deque[Request | Reply],
        outgoing: list[Request | Reply],
        ended: list[Transaction],
        peers: dict[str, None],
    ) -> None:
        while todo:
            step = todo.popleft()
            here = step.peer if isinstance(step, Request) else step.transaction.sender
            if not self.holds(here):
                outgoing.append(step)
            elif isinstance(step, Request):
                todo.extend(self.bus.party(step.peer).handle(step))
                peers[step.peer] = None
            else:
                line = self.bus.line(here)
                if moved := line.receive(step):
                    ended += [transaction for transaction in moved if transaction.ended]
                    self._ask(line, moved, todo)

    def _ask(
        self, line: SenderLine, moved: Iterable[Transaction], todo: deque[Request | Reply]
    ) -> None:
        waiting = deque(moved)
        while waiting:
            requests, more = line.ask(waiting.popleft())
            todo.extend(requests)
            waiting.extend(more)

    def _ready(self, peer: str) -> Iterable[Dequeued]:
        party = self.bus.party(peer)
        while (delivery := party.dequeue()) is not None:
            yield delivery
