"""Steps of the multicast protocols between shards, as bytes.

A chunk is JSON and an Arrow stream: the steps, and the records of the messages that they put into
queues. Steps of one transaction and phase differ only in their peers; together they are a *run*,
one JSON list: `[tag, sender, serial, shared fields, [each step's own fields]]`. A record goes to
each shard once, with the step that queues its message, however many destinations are there.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from sequencer.multicast.protocol import clock_messages as clock
from sequencer.multicast.protocol import counter_messages as counter
from sequencer.multicast.protocol.words import (
    Done,
    Kind,
    LetGo,
    Parcel,
    Refusal,
    Refused,
    Reply,
    Request,
    Stamp,
    TransactionId,
)
from streaming.arrow.ipc import from_ipc, to_ipc
from streaming.arrow.payload import cuts, fits, row_sizes
from streaming.arrow.schemas import PAYLOAD

Step = Request | Reply
STEP_BYTES = 48
_LENGTH = struct.Struct(">I")


def dumps(value: Any) -> str:
    """Encode compact JSON; tuples become lists."""
    return json.dumps(value, separators=(",", ":"))


# --- The fields that the steps of a run share, and each step's own: (tag, …), …


def _nodes(step: Any) -> Any:
    """Return a destination's peer, with its nodes if the message is not for the peer itself."""
    parcels = step.parcels
    if len(parcels) == 1 and parcels[0].node is None:
        return step.peer
    return (step.peer, *[parcel.node for parcel in parcels])


def _common(step: Any) -> tuple[Any, ...]:
    if not step.parcels:
        return (None, Kind.MESSAGE, ())
    first = step.parcels[0]
    return (first.message, first.kind, first.handles)


def _parcels(
    addressed: Any, message: Any, kind: int, handles: Any
) -> tuple[str, tuple[Parcel, ...]]:
    if isinstance(addressed, str):
        return addressed, (Parcel(message, None, tuple(handles), None, Kind(kind)),)
    peer, *nodes = addressed
    passed = tuple(handles)
    return peer, tuple(Parcel(message, node, passed, None, Kind(kind)) for node in nodes)


def _stamp(value: Any) -> Stamp | None:
    return None if value is None else Stamp(*value)


def _clock_fields(step: clock.Clock) -> Any:
    return (step.peer, step.clock, *step.gone)


def _done(step: Done) -> Any:
    return (step.peer, *step.gone) if step.gone else step.peer


def _of_done(number: TransactionId, answer: Any) -> Done:
    if isinstance(answer, str):
        return Done(number, answer)
    return Done(number, answer[0], tuple(answer[1:]))


ENCODE: dict[type, tuple[str, Callable[[Any], tuple[Any, ...]], Callable[[Any], Any]]] = {
    clock.Block: ("B", lambda s: (s.estimate, *_common(s)), _nodes),
    clock.Register: ("R", lambda s: (s.holders,), lambda s: (s.peer, s.node)),
    clock.Sync: ("S", lambda s: s.stamp, lambda s: (s.peer, *s.nodes) if s.nodes else s.peer),
    clock.Enqueue: ("E", lambda s: (s.stamp, s.dead, *_common(s)), _nodes),
    clock.Cancel: ("C", lambda s: (s.handles, s.registered), lambda s: s.peer),
    clock.Arrive: ("A", lambda s: (s.estimate, s.destroys, *_common(s)), _nodes),
    clock.Clock: ("t", lambda _: (), _clock_fields),
    clock.Registered: ("r", lambda _: (), lambda s: (s.peer, s.node, s.destroyed)),
    clock.Stamped: ("s", lambda _: (), lambda s: (s.peer, s.stamp, s.gone)),
    counter.Read: ("V", lambda s: (s.nodes, s.destroys), lambda s: s.peer),
    counter.CopyIn: ("I", lambda s: (s.seq_lower, *_common(s)), _nodes),
    counter.Increment: (
        "N",
        lambda s: (s.nodes, s.plain, s.handles, s.receivers, s.destroys),
        lambda s: s.peer,
    ),
    counter.Commit: ("M", lambda s: (s.stamp, s.dead, *_common(s)), _nodes),
    counter.Drop: ("P", lambda _: (), lambda s: s.peer),
    counter.Value: ("v", lambda s: (s.value, s.holders), lambda s: s.peer),
    counter.Assigned: ("a", lambda s: (s.stamp, s.gone, s.dead, s.missing), lambda s: s.peer),
    LetGo: ("L", lambda s: (s.node, s.count, s.clock), lambda s: s.peer),
    Done: ("d", lambda _: (), _done),
    Refused: ("x", lambda _: (), lambda s: (s.peer, s.reason.value, s.detail, s.node)),
}

Decode = Callable[[TransactionId, Any, Any], Step]


def _block(number: TransactionId, shared: Any, addressed: Any) -> Step:
    return clock.Block(
        number, (parcels := _parcels(addressed, *shared[1:]))[0], shared[0], parcels[1]
    )


def _queued(kind: type[clock.Enqueue | counter.Commit]) -> Decode:
    def decode(number: TransactionId, shared: Any, addressed: Any) -> Step:
        stamp, dead, *common = shared
        peer, parcels = _parcels(addressed, *common)
        return kind(number, peer, Stamp(*stamp), parcels, tuple(dead))

    return decode


def _arrive(number: TransactionId, shared: Any, addressed: Any) -> Step:
    estimate, destroys, *common = shared
    peer, parcels = _parcels(addressed, *common)
    return clock.Arrive(number, peer, estimate, parcels, destroys)


def _sync(number: TransactionId, shared: Any, addressed: Any) -> Step:
    peer, *nodes = [addressed] if isinstance(addressed, str) else addressed
    return clock.Sync(number, peer, Stamp(*shared), tuple(nodes))


def _copy_in(number: TransactionId, shared: Any, addressed: Any) -> Step:
    peer, parcels = _parcels(addressed, *shared[1:])
    return counter.CopyIn(number, peer, shared[0], parcels)


def _increment(number: TransactionId, shared: Any, peer: Any) -> Step:
    nodes, plain, handles, receivers, destroys = shared
    fields = (tuple(nodes), plain, tuple(handles), tuple(receivers), destroys)
    return counter.Increment(number, peer, *fields)


def _assigned(number: TransactionId, shared: Any, peer: Any) -> Step:
    stamp, *names = shared
    return counter.Assigned(number, peer, _stamp(stamp), *map(tuple, names))


DECODE: dict[str, Decode] = {
    "B": _block,
    "R": lambda n, shared, e: clock.Register(n, e[0], e[1], tuple(shared[0])),
    "S": _sync,
    "E": _queued(clock.Enqueue),
    "C": lambda n, shared, e: clock.Cancel(n, e, *map(tuple, shared)),
    "A": _arrive,
    "t": lambda n, _, e: clock.Clock(n, e[0], e[1], tuple(e[2:])),
    "r": lambda n, _, e: clock.Registered(n, e[0], e[1], _stamp(e[2])),
    "s": lambda n, _, e: clock.Stamped(n, e[0], _stamp(e[1]), tuple(e[2])),
    "V": lambda n, shared, e: counter.Read(n, e, tuple(shared[0]), shared[1]),
    "I": _copy_in,
    "N": _increment,
    "M": _queued(counter.Commit),
    "P": lambda n, _, e: counter.Drop(n, e),
    "v": lambda n, shared, e: counter.Value(n, e, shared[0], tuple(shared[1])),
    "a": _assigned,
    "L": lambda n, shared, e: LetGo(n, e, *shared),
    "d": lambda n, _, e: _of_done(n, e),
    "x": lambda n, _, e: refused(n, e),
}

QUEUEING = (clock.Enqueue, clock.Arrive, counter.Commit)
"""The steps that carry a record: a message's, or the command of a destruction or release."""


def refused(number: TransactionId, fields: Sequence[Any]) -> Refused:
    """Return a refusal from its fields without the transaction."""
    peer, reason, detail, node = fields
    return Refused(number, peer, Refusal(reason), detail, node)


class OutgoingSteps:
    """Steps for one shard: runs in order, and the messages whose records they carry."""

    def __init__(self) -> None:
        self.runs: list[list[Any]] = []
        self.messages: list[int | None] = []
        self.count = 0
        self._last: tuple[Any, ...] = ()

    def add(self, step: Step) -> None:
        """Append a step."""
        tag, shared, alone = ENCODE[type(step)]
        head = (tag, step.transaction, shared(step))
        self.count += 1
        if head == self._last:
            self.runs[-1][-1].append(alone(step))
            return
        self._last = head
        self.runs.append([tag, *step.transaction, head[2], [alone(step)]])
        carries = isinstance(step, QUEUEING) and step.parcels
        self.messages.append(step.parcels[0].message if carries else None)  # type: ignore[union-attr]

    def chunks(self, rows: pa.Table, index: Mapping[int, int]) -> list[bytes]:
        """Encode the runs with their records (``index``: each message's row), in chunks."""
        whole = self._chunk(0, len(self.runs), rows, index)
        if fits(whole):
            return [whole]
        carried = row_sizes(rows)
        sizes = (
            len(dumps(run))
            + STEP_BYTES
            + (int(carried[index[message]]) if message is not None else 0)
            for run, message in zip(self.runs, self.messages, strict=True)
        )
        return [self._chunk(first, stop, rows, index) for first, stop in cuts(sizes)]

    def _chunk(self, first: int, stop: int, rows: pa.Table, index: Mapping[int, int]) -> bytes:
        carried = list(dict.fromkeys(m for m in self.messages[first:stop] if m is not None))
        text = dumps([self.runs[first:stop], carried]).encode()
        table = b""
        if carried:
            at = pa.array([index[message] for message in carried], pa.int64())
            table = to_ipc(rows.take(at).combine_chunks())
        return _LENGTH.pack(len(text)) + text + table


def runs_by_shard(steps: Iterable[Step], homes: Mapping[str, int]) -> dict[int, OutgoingSteps]:
    """Group steps by shard; ``homes``: the shard of each name."""
    targets: dict[int, OutgoingSteps] = {}
    for step in steps:
        to = step.peer if isinstance(step, Request) else step.transaction.sender
        targets.setdefault(homes[to], OutgoingSteps()).add(step)
    return targets


def unchunk(chunks: Iterable[bytes]) -> tuple[list[Step], list[int], pa.Table]:
    """Return all chunks' steps in order, the messages whose records they carry, and the records."""
    steps: list[Step] = []
    messages: list[int] = []
    tables = [PAYLOAD.empty_table()]
    for chunk in chunks:
        (size,) = _LENGTH.unpack_from(chunk)
        start = _LENGTH.size
        runs, carried = json.loads(chunk[start : start + size])
        for tag, sender, serial, shared, alone in runs:
            decode, number = DECODE[tag], TransactionId(sender, serial)
            steps += [decode(number, shared, one) for one in alone]
        if carried:
            messages += carried
            tables.append(from_ipc(chunk[start + size :]))
    payload = pa.concat_tables(tables, promote_options="default")
    return steps, messages, payload.combine_chunks()
