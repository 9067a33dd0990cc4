"""Peers and senders' lines of the multicast protocols as plain lists, for a shard's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sequencer.multicast.clock_messages import Register
from sequencer.multicast.clock_peer import Peer
from sequencer.multicast.counter_peer import GlobalCounter
from sequencer.multicast.nodes import OwnedNodes
from sequencer.multicast.sender_line import SenderLine
from sequencer.multicast.words import (
    Destination,
    Destruction,
    Message,
    Parcel,
    Stamp,
    TransactionId,
)
from streaming.disciplines.multicast.codec import refused

OLD_HANDLES = (0, 2)
"""Lists behind the held handles in states without registrations: of the counter, of a clock."""

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
    queue, held, registered = party.state()
    return [[_instance(*each) for each in queue], held, registered]


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
            party.handles.load(_with_registered(more[1]))
    elif isinstance(party, GlobalCounter):
        party.load((state[0], _to_nodes(state[1])))
    else:
        queue, *handles = state
        party.load(([_to_instance(each) for each in queue], *_with_registered(handles)))


def _with_registered(handles: Sequence[Any]) -> tuple[Any, ...]:
    """A receiver's handles; registrations were not counted in older states: one for each held."""
    held, *more = handles
    if len(more) in OLD_HANDLES:
        more.append([(node, 1) for node in held])
    return (held, *more)


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


def _holder(state: Any) -> tuple[str, int]:
    """A holder and its registrations; these were not counted in older states."""
    return (state, 1) if isinstance(state, str) else (state[0], state[1])


def _to_nodes(state: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(
        (
            name,
            (
                [_holder(each) for each in holders],
                destroying,
                destroyed,
                [
                    Register(TransactionId(sender, serial), peer, node, tuple(some))
                    for sender, serial, peer, node, some in waiting
                ],
            ),
        )
        for name, holders, destroying, destroyed, waiting in state
    )


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
