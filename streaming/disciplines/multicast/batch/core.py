"""Discipline `multicast` in the order of the batch: each shard works out what its peers get.

All shards see the same commands and records in the same order, and count them alike: a message's
`timestamp` is its number among all commands and records since the checkpoint began, a batch's
commands before its records. Who gets what and holds what is in `sequencer.multicast.batch`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sequencer.multicast.batch import REASONS, Copies, Holders, MessageLimits, Messages, Node, Peers
from sequencer.multicast.batch.lists import read_lists
from sequencer.slices import slices
from streaming.arrow import output
from streaming.arrow.columns import Bools, Int64s, flat, last_headers
from streaming.arrow.ipc import from_line, from_state, join, split, to_line, to_state
from streaming.arrow.output import Event, Write
from streaming.disciplines.broadcast import (
    BroadcastCore,
    BroadcastOperator,
    BroadcastWork,
    record_homes,
)
from streaming.disciplines.commands import CommandRefused, asked_in, place_of, stretches
from streaming.disciplines.multicast.batch.slices import SLICE_MAX, End, Passed, deliveries, notices
from streaming.disciplines.multicast.commands import (
    DESTROY,
    RELEASE,
    NodeCommand,
    command_id,
    readable,
    refusal,
    releasing,
    signed,
)
from streaming.disciplines.multicast.events import retired, undelivered
from streaming.disciplines.multicast.nodes import Nodes, latin, raw, shown
from streaming.disciplines.multicast.plan import BatchMulticastPlan
from streaming.disciplines.multicast.records import (
    DESTINATIONS_MAX,
    HANDLES_MAX,
    PEER_BYTES_MAX,
)
from streaming.disciplines.refused import Name
from streaming.disciplines.state_keys import shards_of

LIMITS = MessageLimits(DESTINATIONS_MAX, HANDLES_MAX, PEER_BYTES_MAX)
NUMBERS = ("sequence", "incarnation", "last_ms")
PEERS = pa.schema([("key", pa.binary()), *((name, pa.int64()) for name in NUMBERS)])
PAIRS = pa.schema([("step", pa.int64())])
"""The pairs of `Holders` as differences."""


class BatchOperator(BroadcastOperator):
    """The operator of a pipeline of discipline `multicast` in the order of the batch."""

    plan: BatchMulticastPlan

    def core(self, shard: int) -> BatchCore:
        """Return a new shard, without nodes."""
        return BatchCore(self.plan, shard)


class BatchCore(BroadcastCore):
    """One shard: its peers' counts and handles.

    ``clock``: the number of all commands and records so far. ``asked``: the batch's records that
    are commands, and their operations.
    """

    def __init__(self, plan: BatchMulticastPlan, shard: int) -> None:
        super().__init__()
        self.plan = plan
        self.shard = shard
        self.clock = 0
        self.nodes = Nodes(plan.retire_after_ms)
        self.peers = Peers.empty()
        self.holders = Holders.of(np.zeros(0, np.int64))
        self.asked: dict[int, str] = {}

    def step(self, work: BroadcastWork) -> Iterator[Write]:
        """Carry out commands, then the inputs' records, with the commands among them in order."""
        events = self._retire(work.now_ms)
        self.asked = asked_in(work.records, self.plan.input_commands)
        if self.asked or len(work.commands):
            for _ in self.nodes.forget(work.now_ms):
                pass  # nobody holds a handle to it
        if self.asked:
            self.peers.remember(self._named(work))
        ends = self._commands(work.commands, None, work.now_ms, events)
        yield from self._notices(ends)
        home = record_homes(work.records, self.plan.shards) == self.shard
        for first, stop in stretches(len(work.records), self.asked):
            part = work.records.slice(first, stop - first)
            if len(part):
                yield from self._records(part, home[first:stop], work.now_ms, events)
            if stop in self.asked:
                self.totals.commands += int(home[stop])
                row = work.records.slice(stop, 1)
                ends = self._commands(row, self.asked[stop], work.now_ms, events)
                yield from self._notices(ends)
        self.holders.settle()
        self.peers.end()
        self.totals.channels = len(self.peers)
        yield self.plan.events, output.events(events)

    def _named(self, work: BroadcastWork) -> pa.Array:
        """Return the peers that a batch's records and commands name, and all owners of nodes."""
        ((to, _),) = last_headers(flat(work.records["headers"]), ["to"])
        values = flat(work.records["value"])
        asked = [readable(value, None) for value in work.commands["value"].to_pylist()]
        asked += [readable(values[row].as_py(), op) for row, op in self.asked.items()]
        others = {each.other.encode() for each in asked if isinstance(each, NodeCommand)}
        others.update(map(raw, self.nodes.owners()))
        parts = [read_lists(to).names, flat(work.records["key"]), pa.array([*others], pa.binary())]
        return pa.concat_arrays(parts).drop_null().unique()

    def unspend(self, counts: Mapping[bytes, int]) -> None:
        """Take back this many of the last sequence numbers of these peers."""
        rows = self.peers.rows(pa.array([*counts], pa.binary()))
        self.peers.sequence[rows] -= np.array([*counts.values()])

    def origin(self, work: BroadcastWork, name: Name) -> int:
        """Return the record of this timestamp; below 0 a destruction, counted from the last."""
        (stamp, _), _ = self.plan.message_of(name)
        return int(stamp or 0) - 1 - (self.clock - len(work.records))

    def is_notice(self, work: BroadcastWork, name: Name) -> bool:
        """Return whether a delivery reports a destruction."""
        record = self.origin(work, name)
        return record < 0 or record in self.asked

    def destinations(self, work: BroadcastWork, record: int) -> Collection[str]:
        """Return the peers and nodes that a record names; a destroyed one had its event."""
        ((to, _),) = last_headers(flat(work.records["headers"]).slice(record, 1), ["to"])
        names = (to[0].as_py() or b"").split(b",")
        return {name.decode(errors="surrogateescape") for name in names}

    def dump(self) -> str:
        """Encode the state."""
        peers, pairs = self.peers, np.diff(self.holders.pairs, prepend=0)
        columns = [peers.keys, *(pa.array(getattr(peers, name)) for name in NUMBERS)]
        parts = [
            json.dumps(self.clock).encode(),
            self.nodes.dump(),
            to_state(pa.RecordBatch.from_arrays(columns, schema=PEERS)),
            to_state(pa.RecordBatch.from_arrays([pa.array(pairs)], schema=PAIRS)),
        ]
        return to_line(join(parts))

    def load(self, state: str) -> None:
        """Restore the shard from ``state``."""
        head, nodes, peers, pairs = split(from_line(state), 4)
        self.clock = json.loads(head)
        self.nodes.load(nodes)
        keys, *numbers = from_state(peers, PEERS).columns
        self.peers = Peers(keys, *(number.to_numpy().copy() for number in numbers))
        (steps,) = from_state(pairs, PAIRS).columns
        self.holders = Holders.of(np.cumsum(steps.to_numpy()))

    def renew(self, since_ms: int) -> None:
        """See `Core.renew`."""
        self.peers.renew(since_ms)

    # --- What is forgotten.

    def _retire(self, now_ms: int) -> list[Event]:
        """Forget peers that were inactive for long and have no node, with their handles."""
        peers, due_ms = self.peers, now_ms - self.plan.retire_after_ms
        idle = peers.last_ms < due_ms
        if not idle.any():
            return []
        rows = peers.rows(pa.array(sorted(map(raw, self.nodes.owners())), pa.binary()))
        rows = rows[rows >= 0]
        peers.last_ms[rows[idle[rows]]] = now_ms  # to have a node is to take part
        idle[rows] = False
        at = np.flatnonzero(idle)
        names = peers.keys.take(pa.array(at)).to_pylist()
        counts = zip(peers.incarnation[at].tolist(), peers.sequence[at].tolist(), strict=True)
        events = [
            retired(self.plan.pipeline, latin(name), count, now_ms)
            for name, count in zip(names, counts, strict=True)
        ]
        self.holders.keep(~idle)
        peers.keep(~idle)
        return events

    # --- Commands.

    def _commands(
        self, commands: pa.Table, asked: str | None, now_ms: int, events: list[Event]
    ) -> list[End]:
        """Carry out the commands, as every shard does; return the destructions among them.

        ``asked``: the operation in an input record's header. The first shard answers; the peer's
        shard answers a release.
        """
        if not len(commands):
            return []
        rows = commands.to_pylist()
        read = [readable(row["value"], asked) for row in rows]
        names = pa.array([releasing(command) for command in read], pa.binary())
        peers = self.peers.rows(names).tolist()
        answering = np.where(pc.equal(names, b""), 0, shards_of(names, self.plan.shards))
        ends: list[End] = []
        for at, (row, command) in enumerate(zip(rows, read, strict=True)):
            stamp = self.clock + 1 + at
            try:
                if asked and isinstance(command, NodeCommand):
                    self.nodes.require_owner(command, row["key"], now_ms)
                more = self._do(command, (stamp, row["timestamp"]), peers[at], now_ms, ends)
                if asked == RELEASE and row["key"] is not None:
                    more |= {"timestamp": stamp, "from": shown(latin(row["key"]))}
            except CommandRefused as refused:
                more = refusal(row["value"], asked, refused)
            if answering[at] == self.shard:
                place, asked_as = place_of(row, self.plan), command_id(row["value"])
                more |= signed(row["value"])
                events.append(output.answer(self.plan.pipeline, place, asked_as, now_ms, more))
        owners = pa.array([raw(end.owner) for end in ends], pa.binary())
        self._note_active(owners.unique(), now_ms)  # they had a node until now
        self.clock += len(rows)
        return ends

    def _do(
        self,
        command: NodeCommand | CommandRefused,
        when: tuple[int, int],
        peer: int,
        now_ms: int,
        ends: list[End],
    ) -> dict[str, Any]:
        """Carry out one command; return the answer's fields. Raises CommandRefused."""
        if isinstance(command, CommandRefused):
            raise command
        life = self.nodes.do(command, now_ms)
        repeated = command.repeated()
        if command.op == DESTROY:
            repeated |= {"timestamp": when[0], "from": shown(life.owner)}
            rows = self.holders.destroy(life.number)
            sequence = self.peers.number(rows, now_ms)
            ends.append(End(command.node, life.owner, *when, rows, sequence))
        elif command.op == RELEASE and peer >= 0:
            self.holders.release(life.number, peer)
            repeated["incarnation"] = int(self.peers.incarnation[peer])
            repeated["sequence"] = int(self.peers.sequence[peer])
        return repeated

    def _notices(self, ends: Sequence[End]) -> Iterator[Write]:
        """Yield a record for each holder of a destroyed node."""
        for table in notices(ends, self.peers):
            self.totals.notices += len(table)
            yield self.plan.output, table

    # --- Messages.

    def _records(
        self, records: pa.Table, own: Bools, now_ms: int, events: list[Event]
    ) -> Iterator[Write]:
        """Yield this shard's deliveries, and rejects and events of its own records (``own``)."""
        (to, _), (handles, has_handles) = last_headers(flat(records["headers"]), ["to", "handles"])
        find = partial(self._find, now_ms=now_ms)
        messages = Messages(flat(records["key"]), to, handles, find, LIMITS)
        copies = messages.copies(shards_of(messages.names.peers, self.plan.shards) == self.shard)
        rows = self._rows_of(messages, copies, now_ms)
        stamps = pa.array(self.clock + 1 + np.arange(len(records), dtype=np.int64))
        sent = output.with_origin(records.append_column("stamp", stamps), records, self.plan.named)
        passed = Passed(messages, has_handles)
        for first, stop in slices(copies.counts, SLICE_MAX):
            record, name = copies.of(first, stop)
            if len(record):
                peer = rows[messages.names.peer[name]]
                added = passed.headers(record)
                added["sequence"] = self.peers.number(peer, now_ms)
                added["incarnation"] = self.peers.incarnation[peer]
                yield self.plan.output, deliveries(messages, sent, record, name, added)
        for peer, node in copies.handles():
            self.holders.settle()
            self.holders.add(node, rows[peer])
        self._note_active(flat(records["key"]).filter(pa.array(messages.good)).unique(), now_ms)
        self.clock += len(records)
        self.totals.seen += int(own.sum())
        self.totals.delivered += int(copies.counts.sum())
        self._undelivered(records, messages, own, now_ms, events)
        yield self.plan.rejects, self._rejects(records, messages, own)

    def _rows_of(self, messages: Messages, copies: Copies, now_ms: int) -> Int64s:
        """Return the row of each of `messages.names.peers` with deliveries here; -1: others."""
        names = messages.names
        got = np.zeros(len(names.peers), np.bool_)
        got[names.peer[copies.names()]] = True
        rows = np.full(len(got), -1, np.int64)
        rows[got] = self.peers.rows_or_new(names.peers.filter(pa.array(got)), now_ms)
        return rows

    def _find(self, name: bytes, now_ms: int) -> Node | None:
        """Return the node of a name, also one that was destroyed not long ago."""
        life = self.nodes.find(latin(name), now_ms)
        if life is None:
            return None
        return Node(life.number, raw(life.owner), destroyed=life.destroyed_ms >= 0)

    def _note_active(self, names: pa.Array, now_ms: int) -> None:
        """Count peers as active: senders, and owners of nodes that end."""
        rows = self.peers.rows(names)
        self.peers.last_ms[rows[rows >= 0]] = now_ms

    def _undelivered(
        self,
        records: pa.Table,
        messages: Messages,
        own: Bools,
        now_ms: int,
        events: list[Event],
    ) -> None:
        """Add an event for each destination that was destroyed before the message."""
        record, name = messages.undelivered(own)
        self.totals.undelivered += len(record)
        if not len(record):
            return
        rows = records.select(["topic", "partition", "offset", "key"])
        rows = rows.take(pa.array(record)).to_pylist()
        names = messages.to.names.take(pa.array(name)).to_pylist()
        for row, to in zip(rows, names, strict=True):
            place, text = place_of(row, self.plan), to.decode(errors="backslashreplace")
            events.append(undelivered(self.plan.pipeline, place, row["key"], text, now_ms))

    def _rejects(self, records: pa.Table, messages: Messages, own: Bools) -> pa.Table:
        at = np.flatnonzero(own & ~messages.good)
        reasons = messages.reason[at]
        for reason, count in zip(*np.unique(reasons, return_counts=True), strict=True):
            self.totals.reject(REASONS[reason], int(count))
        rejected = records.take(pa.array(at)).combine_chunks()
        return output.rejects(rejected, pa.array(REASONS).take(pa.array(reasons)), self.plan.inputs)
