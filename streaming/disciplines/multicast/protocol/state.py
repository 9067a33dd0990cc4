"""The common state of both multicast protocols as plain lists, and back.

Parcels, nodes, handles; senders' lines and their transactions. `orders` has what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sequencer.multicast.protocol.clock_messages import Register
from sequencer.multicast.protocol.nodes import OwnedNodes
from sequencer.multicast.protocol.sender_line import SenderLine
from sequencer.multicast.protocol.transaction import TransactionState
from sequencer.multicast.protocol.words import (
    Destination,
    Destruction,
    Kind,
    Message,
    Parcel,
    Release,
    Stamp,
    Task,
    TransactionId,
)
from streaming.disciplines.multicast.protocol.codec import refused

# --- Parcels, nodes and handles.


def parcel_fields(parcel: Parcel) -> tuple[Any, ...]:
    """Return a parcel's fields without its payload, which is a row of the shard."""
    return (parcel.message, parcel.node, parcel.handles, parcel.kind)


def parcel_of(fields: Sequence[Any]) -> Parcel:
    """Return the inverse of :func:`parcel_fields`."""
    message, node, handles, kind = fields
    return Parcel(message, node, tuple(handles), None, Kind(kind))


def node_fields(nodes: OwnedNodes) -> list[Any]:
    """Return the fields of a party's nodes."""
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


def node_states(fields: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments of `OwnedNodes.load`."""
    return tuple(
        (name, (list(map(tuple, holders)), destroying, destroyed, list(map(_register, asked))))
        for name, holders, destroying, destroyed, asked in fields
    )


def _register(fields: Sequence[Any]) -> Register:
    sender, serial, peer, node, holders = fields
    return Register(TransactionId(sender, serial), peer, node, tuple(holders))


# --- A sender's line.


class NoteFields(NamedTuple):
    """One protocol's notes on a transaction, as lists: plain values, and sets of names."""

    values: Sequence[Any]
    names: Sequence[Sequence[str]]


def line_fields(line: SenderLine, notes: Callable[[Any], NoteFields]) -> list[Any]:
    """Return the number of the next transaction, and those in flight."""
    if not line.flying:
        return [line.serial]
    serial, flying, unstamped, unseen = line.state()
    saved = [
        [number, _task_fields(task), _transaction_fields(state, notes(state.notes))]
        for number, task, state in flying
    ]
    return [serial, saved, unstamped, unseen]


def load_line(
    line: SenderLine, fields: Sequence[Any], notes: Callable[[NoteFields], tuple[Any, ...]]
) -> None:
    """Restore a new line from its fields."""
    serial, saved, unstamped, unseen = fields if len(fields) > 1 else (fields[0], (), (), ())
    flying = []
    for number, task_fields, transaction_fields in saved:
        task = _task_of(line.sender, task_fields)
        name = TransactionId(line.sender, number)
        flying.append((number, task, _transaction_state(name, task, transaction_fields, notes)))
    line.load((serial, flying, unstamped, unseen))


def _task_fields(task: Task) -> list[Any]:
    if isinstance(task, Destruction):
        return [task.id, task.node]
    if isinstance(task, Release):
        return [task.id, task.node, task.peer]
    to = [
        destination.peer if destination.node is None else (destination.peer, destination.node)
        for destination in task.destinations
    ]
    return [task.id, to, task.handles, task.handle_owners]


def _task_of(sender: str, fields: Sequence[Any]) -> Task:
    if len(fields) == 2:
        return Destruction(fields[0], sender, fields[1])
    if len(fields) == 3:
        number, node, peer = fields
        return Release(number, sender, peer, node)
    number, names, handles, owners = fields
    to = tuple(Destination(to) if isinstance(to, str) else Destination(*to) for to in names)
    return Message(number, sender, to, tuple(handles), tuple(owners))


def _transaction_fields(state: TransactionState, notes: NoteFields) -> list[Any]:
    no = state.refusal
    refusal = None if no is None else (no.peer, no.reason.value, no.detail, no.node)
    plain = [
        state.phase,
        state.alone,
        state.may_stamp,
        state.may_show,
        state.stamp,
        refusal,
        state.dead,
    ]
    notified = None  # the receivers of notices are not in the task
    if state.parcels and state.parcels[0][1][0].kind is Kind.NOTICE:
        notified = [peer for peer, _ in state.parcels]
    names = [state.waiting, state.open, state.gone, *notes.names]
    return [[*plain, *notes.values], names, notified]


def _transaction_state(
    number: TransactionId,
    task: Task,
    fields: Sequence[Any],
    notes: Callable[[NoteFields], tuple[Any, ...]],
) -> TransactionState:
    plain, names, notified = fields
    phase, alone, may_stamp, may_show, stamp, refusal, dead, *values = plain
    waiting, asked_for, gone, *more = names
    return TransactionState(
        phase=phase,
        alone=alone,
        may_stamp=may_stamp,
        may_show=may_show,
        stamp=stamp and Stamp(*stamp),
        refusal=refusal and refused(number, refusal),
        dead=tuple(dead),
        waiting=tuple(waiting),
        open=tuple(asked_for),
        gone=tuple(gone),
        parcels=tuple(_parcels_of(task, notified or ()).items()),
        notes=notes(NoteFields(values, more)),
    )


def _parcels_of(task: Task, notified: Sequence[str]) -> Mapping[str, tuple[Parcel, ...]]:
    """Return the parcels that a task puts into each queue."""
    if isinstance(task, Destruction):
        return dict.fromkeys(notified, (Parcel(task.id, task.node, kind=Kind.NOTICE),))
    if isinstance(task, Release):
        return {task.peer: (Parcel(task.id, task.node, kind=Kind.RELEASE),)}
    parcels: dict[str, list[Parcel]] = {}
    for to in task.destinations:
        parcels.setdefault(to.peer, []).append(Parcel(task.id, to.node, task.handles, None))
    return {peer: tuple(queued) for peer, queued in parcels.items()}
