"""A shard's peers and senders: live where something is on its way, else a line of text each.

A peer's text is made anew when a step touches it and read when it is next needed, so that idle
peers cost a batch nothing but their text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sequencer.multicast import ClockBus, CounterBus
from sequencer.multicast.bus import Bus
from sequencer.multicast.clock_messages import Register
from sequencer.multicast.clock_peer import Peer
from sequencer.multicast.counter_peer import CounterPeer, GlobalCounter
from sequencer.multicast.nodes import OwnedNodes
from sequencer.multicast.sender_line import SenderLine
from sequencer.multicast.words import (
    Destination,
    Destruction,
    Limits,
    Message,
    Parcel,
    Stamp,
    TransactionId,
)
from streaming.multicast_codec import dumps, refused

LIMITS = Limits(entries_max=2**40, nodes_max=2**40, in_flight_max=2**40)
"""What queues and lines hold is bounded by what a shard lets start (`IN_FLIGHT_MAX`)."""


@dataclass(slots=True)
class Count:
    """What a peer got: its next `sequence`, since when, and when it last took part (ms)."""

    sequence: int
    incarnation: int
    last_ms: int


class Peers:
    """The peers of one shard. Names are Latin-1, one character for each byte of a key."""

    def __init__(self, order: str, bus: Bus | None = None) -> None:
        self.bus = bus or _bus(order)
        self.texts: dict[str, str] = {}
        self.counts: dict[str, Count] = {}
        self.last: dict[str, int] = {}
        self.floor = 0
        self.queued: dict[str, tuple[int, ...]] = {}
        self.busy: dict[str, None] = {}
        self._touched: dict[str, None] = {}
        self._wire()

    def count(self, name: str, now_ms: int) -> Count:
        """A peer's count, begun now if there is none."""
        self.touch(name)
        found = self.counts.get(name)
        if found is None:
            found = self.counts[name] = Count(0, now_ms, now_ms)
        return found

    def touch(self, name: str) -> None:
        """Make a peer live; its text is made anew when the step ends."""
        if name in self._touched:
            return
        self._touched[name] = None
        if name in self.texts and name not in self.counts:
            self._thaw(name)

    def settle(self, now_ms: int) -> None:
        """Make the texts of all peers that were touched."""
        for name in self._touched:
            count = self.counts.setdefault(name, Count(0, now_ms, now_ms))
            count.last_ms = self.last[name] = now_ms
            party, line = self.bus.parties.get(name), self.bus.lines.get(name)
            self._note(name, party)
            self.texts[name] = dumps(
                [
                    count.sequence,
                    count.incarnation,
                    None if party is None else party_state(party),
                    None if line is None or not line.serial else line_state(line),
                ]
            )
        self._touched = {}

    def retire(self, due_ms: int) -> Iterator[tuple[str, Count]]:
        """Forget those that took part last before ``due_ms`` and have nothing to keep."""
        idle = [name for name, last in self.last.items() if last < due_ms]
        for name in idle:
            if name in self._touched:
                continue
            self.touch(name)
            party, line = self.bus.parties.get(name), self.bus.lines.get(name)
            if name in self.busy or (line is not None and line.flying) or _keeps(party):
                continue
            if isinstance(party, Peer):
                self.floor = max(self.floor, party.queue.clock)
            for each in (self.bus.parties, self.bus.lines, self.texts, self.last):
                each.pop(name, None)  # type: ignore[attr-defined]
            del self._touched[name]
            yield name, self.counts.pop(name)

    def dump(self) -> str:
        """All of it; equal peers give equal text."""
        heads = [self.floor, list(self.texts), list(self.last.values()), list(self.busy)]
        queued = [[name, ids] for name, ids in self.queued.items()]
        return "\n".join([dumps([*heads, queued]), *self.texts.values()])

    def load(self, text: str) -> None:
        """Become what ``text`` was dumped from."""
        head, *texts = text.split("\n")
        self.floor, names, last, busy, queued = json.loads(head)
        self.texts = dict(zip(names, texts, strict=True))
        self.last = dict(zip(names, last, strict=True))
        self.busy = dict.fromkeys(busy)
        self.queued = {name: tuple(ids) for name, ids in queued}

    def _wire(self) -> None:
        """Have the bus tell which names it uses, and find those that are not live."""
        bus, party, line, new = self.bus, self.bus.party, self.bus.line, self.bus._new_party  # noqa: SLF001

        def find(known: Callable[[str], Any]) -> Callable[[str], Any]:
            def found(name: str) -> Any:
                if name not in self._touched:
                    self.touch(name)
                return known(name)

            return found

        def begin(name: str) -> Any:
            made = new(name)
            if isinstance(made, Peer):  # above whatever a forgotten peer of this name was told
                made.queue.sync(self.floor)
            return made

        bus.party = find(party)  # type: ignore[method-assign]
        bus.line = find(line)  # type: ignore[method-assign]
        bus._new_party = begin  # type: ignore[method-assign]  # noqa: SLF001

    def _thaw(self, name: str) -> None:
        sequence, incarnation, party, line = json.loads(self.texts[name])
        self.counts[name] = Count(sequence, incarnation, self.last[name])
        if party is not None:
            load_party(self.bus.party(name), party)
        if line is not None:
            load_line(self.bus.line(name), line)

    def _note(self, name: str, party: Any) -> None:
        """Whether something waits for a peer, and which messages lie there."""
        ids = tuple(dict.fromkeys(_lying(party)))
        if ids:
            self.queued[name] = ids
        else:
            self.queued.pop(name, None)
        if ids or (isinstance(party, Peer) and party.queue.blocked):
            self.busy[name] = None
        else:
            self.busy.pop(name, None)


def _bus(order: str) -> Bus:
    return ClockBus(LIMITS) if order == "clock" else CounterBus(LIMITS)


def _keeps(party: Any) -> bool:
    """Whether a peer has nodes, or handles to some."""
    if isinstance(party, Peer):
        return bool(party.nodes.state() or party.handles.held)
    if isinstance(party, CounterPeer):
        return bool(party.held)
    return party is not None


def _lying(party: Any) -> Iterator[int]:
    """The messages in a queue, also those without a number yet."""
    if party is None or isinstance(party, GlobalCounter) or not len(party.queue):
        return
    if isinstance(party, Peer):
        for _, _, (parcel, _) in party.queue.state()[1]:
            yield parcel.message
    else:
        for _, _, stamp, contents in party.queue.state():
            for content in contents:
                yield (content if stamp is None else content[0]).message


# --- A party as lists, and back.


def party_state(party: Any) -> list[Any]:
    """A clock's peer, a counter's peer, or the counter."""
    if isinstance(party, Peer):
        clock, messages, blocks = party.queue.state()
        if not messages and not blocks:
            found = [clock]
        else:
            lying = [(t, s, *_parcel(parcel), dead) for t, s, (parcel, dead) in messages]
            found = [clock, lying, [(*token, *place) for token, place in blocks]]
        nodes, handles = _nodes(party.nodes), party.handles.state()
        return [found, nodes, handles] if nodes or any(handles) else [found]
    if isinstance(party, GlobalCounter):
        return [party.value, _nodes(party.nodes)]
    return [[_instance(*each) for each in party.queue.state()], sorted(party.held)]


def load_party(party: Any, state: Sequence[Any]) -> None:
    """Put a new party into a state."""
    if isinstance(party, Peer):
        queue, *more = state
        clock, messages, blocks = queue if len(queue) > 1 else (queue[0], (), ())
        lying = [(t, s, (_to_parcel(parcel), tuple(dead))) for t, s, *parcel, dead in messages]
        waiting = [(TransactionId(*each[:2]), tuple(each[2:])) for each in blocks]
        party.queue.load((clock, lying, waiting))
        if more:
            party.nodes.load(_to_nodes(more[0]))
            held, expected, gone = more[1]
            party.handles.load((held, [tuple(each) for each in expected], gone))
    elif isinstance(party, GlobalCounter):
        party.load((state[0], _to_nodes(state[1])))
    else:
        party.load(([_to_instance(each) for each in state[0]], state[1]))


def _parcel(parcel: Parcel) -> tuple[Any, ...]:
    return (parcel.message, parcel.node, parcel.handles, parcel.notice)


def _to_parcel(fields: Sequence[Any]) -> Parcel:
    message, node, handles, notice = fields
    return Parcel(message, node, tuple(handles), None, notice)


def _instance(token: TransactionId, low: int, stamp: Stamp | None, contents: Any) -> list[Any]:
    if stamp is None:
        return [*token, low, None, [_parcel(each) for each in contents]]
    return [*token, low, stamp[0], [(*_parcel(each), dead) for each, dead in contents]]


def _to_instance(fields: Sequence[Any]) -> tuple[Any, ...]:
    sender, serial, low, timestamp, contents = fields
    token = TransactionId(sender, serial)
    if timestamp is None:
        return (token, low, None, tuple(map(_to_parcel, contents)))
    found = tuple((_to_parcel(parcel), tuple(dead)) for *parcel, dead in contents)
    return (token, low, Stamp(timestamp, sender), found)


def _nodes(nodes: OwnedNodes) -> list[Any]:
    return [
        [
            name,
            holders,
            destroying,
            destroyed,
            [(*r.transaction, r.peer, r.node, r.holders) for r in waiting],
        ]
        for name, (holders, destroying, destroyed, waiting) in nodes.state()
    ]


def _to_nodes(state: Sequence[Any]) -> list[Any]:
    return [
        (
            name,
            (
                holders,
                destroying,
                destroyed,
                [
                    Register(TransactionId(sender, serial), peer, node, tuple(some))
                    for sender, serial, peer, node, some in waiting
                ],
            ),
        )
        for name, holders, destroying, destroyed, waiting in state
    ]


# --- A sender's line as lists, and back.


def line_state(line: SenderLine) -> list[Any]:
    """The number of the next transaction, and those on their way."""
    if not line.flying:
        return [line.serial]
    serial, flying, unstamped, unseen = line.state()
    some = [[number, _task(task), _transaction(state)] for number, task, state in flying]
    return [serial, some, unstamped, unseen]


def load_line(line: SenderLine, state: Sequence[Any]) -> None:
    """Put a new line into a state."""
    serial, flying, unstamped, unseen = state if len(state) > 1 else (state[0], (), (), ())
    some = []
    for number, fields, inner in flying:
        task = _to_task(line.sender, fields)
        transaction_id = TransactionId(line.sender, number)
        some.append((number, task, _to_transaction(transaction_id, task, inner)))
    line.load((serial, some, unstamped, unseen))


def _task(task: Message | Destruction) -> list[Any]:
    if isinstance(task, Destruction):
        return [task.id, task.node]
    to = [each.peer if each.node is None else (each.peer, each.node) for each in task.destinations]
    return [task.id, to, task.handles, task.handle_owners]


def _to_task(sender: str, fields: Sequence[Any]) -> Message | Destruction:
    if len(fields) == 2:
        return Destruction(fields[0], sender, fields[1])
    number, to, handles, owners = fields
    some = tuple(Destination(each) if isinstance(each, str) else Destination(*each) for each in to)
    return Message(number, sender, some, tuple(handles), tuple(owners))


PHASE, STAMP, REFUSAL, DEAD = 0, 4, 5, 6
"""Places in a transaction's plain attributes (`Transaction.plain`) that need more than JSON."""


def _transaction(state: tuple[Any, ...]) -> list[Any]:
    plain, containers, parcels = state
    fields = list(plain)
    no = fields[REFUSAL]
    if no is not None:
        fields[REFUSAL] = (no.peer, no.reason.value, no.detail, no.node)
    notice = None
    if parcels and parcels[0][1][0].notice:  # who gets a notice is no part of the task
        notice = [peer for peer, _ in parcels]
    return [fields, containers, notice]


def _to_transaction(
    number: TransactionId, task: Message | Destruction, fields: Sequence[Any]
) -> tuple[Any, ...]:
    plain, containers, notice = fields
    plain = list(plain)
    plain[STAMP] = plain[STAMP] and Stamp(*plain[STAMP])
    plain[REFUSAL] = plain[REFUSAL] and refused(number, plain[REFUSAL])
    plain[DEAD] = tuple(plain[DEAD])
    plain = [tuple(each) if isinstance(each, list) else each for each in plain]
    parcels: Mapping[str, tuple[Parcel, ...]] = {}
    if isinstance(task, Destruction):
        parcel = Parcel(task.id, task.node, notice=True)
        parcels = dict.fromkeys(notice or (), (parcel,))
    else:
        found: dict[str, list[Parcel]] = {}
        for to in task.destinations:
            parcel = Parcel(task.id, to.node, task.handles, None)
            found.setdefault(to.peer, []).append(parcel)
        parcels = {peer: tuple(some) for peer, some in found.items()}
    return (plain, containers, tuple(parcels.items()))
