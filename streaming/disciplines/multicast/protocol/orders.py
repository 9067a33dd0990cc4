"""Differences between the two orders by a protocol: the bus, and how its parts are saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from sequencer.multicast import COUNTER, Bus, ClockBus, CounterBus
from sequencer.multicast.protocol.clock_transaction import ClockNotes
from sequencer.multicast.protocol.counter_transaction import CounterNotes
from sequencer.multicast.protocol.words import Stamp, TransactionId
from streaming.disciplines.multicast.protocol.state import (
    NoteFields,
    node_fields,
    node_states,
    parcel_fields,
    parcel_of,
)


class Order(ABC):
    """One order: the type of its bus, and its parties as lists that JSON can hold."""

    bus_type: ClassVar[type[Bus]]

    @abstractmethod
    def party_fields(self, name: str, party: Any) -> list[Any]:
        """Return the fields of a name's party, without those that all idle parties share."""

    @abstractmethod
    def load_party(self, name: str, party: Any, fields: Sequence[Any]) -> None:
        """Restore a new party from its fields."""

    @abstractmethod
    def note_fields(self, notes: Any) -> NoteFields:
        """Return the protocol's notes on a transaction."""

    @abstractmethod
    def notes(self, fields: NoteFields) -> tuple[Any, ...]:
        """Return the inverse of `note_fields`."""


class ClockOrder(Order):
    """By bus1: each peer has a clock, its nodes and its handles."""

    bus_type = ClockBus

    def party_fields(self, name: str, party: Any) -> list[Any]:
        """The queue; nodes and handles where there are any."""
        del name
        clock, messages, blocks = party.queue.state()
        queue = [clock]
        if messages or blocks:
            lying = [(t, s, *parcel_fields(parcel), dead) for t, s, (parcel, dead) in messages]
            queue = [clock, lying, [(*token, *block) for token, block in blocks]]
        nodes, handles = node_fields(party.nodes), party.handles.state()
        return [queue, nodes, handles] if nodes or any(handles) else [queue]

    def load_party(self, name: str, party: Any, fields: Sequence[Any]) -> None:
        """Return the inverse of `party_fields`."""
        del name
        queue, *more = fields
        clock, messages, blocks = queue if len(queue) > 1 else (queue[0], (), ())
        lying = [(t, s, (parcel_of(parcel), tuple(dead))) for t, s, *parcel, dead in messages]
        waiting = [
            (TransactionId(sender, serial), tuple(block)) for sender, serial, *block in blocks
        ]
        party.queue.load((clock, lying, waiting))
        if more:
            nodes, handles = more
            party.nodes.load(node_states(nodes))
            party.handles.load(tuple(handles))

    def note_fields(self, notes: ClockNotes) -> NoteFields:
        """Return the parties that have a block, and those that have noted the receivers."""
        return NoteFields([notes.maximum], [notes.blocked, notes.registered])

    def notes(self, fields: NoteFields) -> ClockNotes:
        """Return the inverse of `note_fields`."""
        (maximum,) = fields.values
        return ClockNotes(maximum, *map(tuple, fields.names))


class CounterOrder(Order):
    """By kdbus: the counter has all nodes, each peer its handles."""

    bus_type = CounterBus

    def party_fields(self, name: str, party: Any) -> list[Any]:
        """The counter, or a peer's queue and handles."""
        if name == COUNTER:
            return [party.value, node_fields(party.nodes)]
        queue, held, registered = party.state()
        return [[_copy_fields(*copy) for copy in queue], held, registered]

    def load_party(self, name: str, party: Any, fields: Sequence[Any]) -> None:
        """Return the inverse of `party_fields`."""
        if name == COUNTER:
            value, nodes = fields
            party.load((value, node_states(nodes)))
        else:
            queue, *handles = fields
            party.load(([_copy_state(copy) for copy in queue], *handles))

    def note_fields(self, notes: CounterNotes) -> NoteFields:
        """Return the counter at the start, the holders without a copy, and those with one."""
        return NoteFields([notes.seq_lower, notes.missing], [notes.copied])

    def notes(self, fields: NoteFields) -> CounterNotes:
        """Return the inverse of `note_fields`."""
        seq_lower, missing = fields.values
        (copied,) = fields.names
        return CounterNotes(seq_lower, tuple(missing), tuple(copied))


ORDERS: dict[str, Order] = {"clock": ClockOrder(), "counter": CounterOrder()}


def _copy_fields(token: TransactionId, low: int, stamp: Stamp | None, contents: Any) -> list[Any]:
    if stamp is None:
        return [*token, low, None, [parcel_fields(parcel) for parcel in contents]]
    committed = [(*parcel_fields(parcel), dead) for parcel, dead in contents]
    return [*token, low, stamp.timestamp, committed]


def _copy_state(fields: Sequence[Any]) -> tuple[Any, ...]:
    sender, serial, low, timestamp, contents = fields
    token = TransactionId(sender, serial)
    if timestamp is None:
        return (token, low, None, tuple(map(parcel_of, contents)))
    committed = tuple((parcel_of(parcel), tuple(dead)) for *parcel, dead in contents)
    return (token, low, Stamp(timestamp, sender), committed)
