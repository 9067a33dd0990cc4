"""Discipline `multicast` on shards: messages from senders to any peers, in one order.

The protocol is `sequencer.multicast`; this module adds the messages' records, commands about nodes,
and deliveries.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.multicast import (
    COUNTER,
    Bus,
    Delivery,
    Destruction,
    Message,
    Release,
    Released,
    Shard,
    Task,
    Transaction,
)
from streaming.arrow import output
from streaming.arrow.columns import flat, last_headers
from streaming.arrow.ipc import from_ipc, from_line, join, split, to_ipc, to_line
from streaming.arrow.schemas import RECORD
from streaming.disciplines.commands import asked_in, place_of, stretches
from streaming.disciplines.exchange import ExchangeCore, ExchangeOperator, ShardOutcome, ShardWork
from streaming.disciplines.multicast.events import retired, undelivered
from streaming.disciplines.multicast.nodes import Nodes, raw
from streaming.disciplines.multicast.plan import MulticastPlan
from streaming.disciplines.multicast.protocol.codec import dumps, runs_by_shard, unchunk
from streaming.disciplines.multicast.protocol.kept_records import KeptRecords
from streaming.disciplines.multicast.protocol.node_commands import (
    CommandInLine,
    NodeCommands,
    placed_row,
)
from streaming.disciplines.multicast.protocol.peers import Peers
from streaming.disciplines.multicast.protocol.refused import MulticastRefusals
from streaming.disciplines.multicast.protocol.route import Homes
from streaming.disciplines.multicast.protocol.turn import Turn
from streaming.disciplines.multicast.records import Reader, deliveries, written
from streaming.disciplines.state_keys import shards_of
from streaming.disciplines.waiting import waiting_report

IN_FLIGHT_MAX = 50_000
"""The most destinations of a shard's messages in flight; further messages wait in the order of
arrival. One message may have more."""

READ_MAX = 5_000


class MulticastOperator(ExchangeOperator):
    """The operator of a pipeline of discipline `multicast`."""

    plan: MulticastPlan

    def core(self, shard: int) -> MulticastCore:
        """Return a new shard, without nodes."""
        return MulticastCore(self.plan, shard)


class MulticastCore(ExchangeCore):
    """One shard: its senders and peers, and the records in flight from or to them.

    ``rows`` are those records under ``ids``: a number for each message, unique over all shards. Of
    the shard's own, those from ``first_waiting`` on have not started yet; ``flying`` has the others
    until their transaction ends, with their numbers of destinations. ``placed`` are the commands
    that have not started. ``bus_type``: replaces the order's own.
    """

    def __init__(self, plan: MulticastPlan, shard: int, bus_type: type[Bus] | None = None) -> None:
        super().__init__()
        self.plan = plan
        self.shard = shard
        self.homes = Homes(plan.shards)
        self.peers = Peers(plan.order, bus_type)
        self.bus = self.peers.bus
        self.net = Shard(self.bus, lambda name: self.homes[name] == shard)
        self.nodes = Nodes(plan.retire_after_ms)
        self.reader = Reader(self.nodes)
        self.rows = KeptRecords()
        self.next_id = self.first_waiting = shard
        self.flying: dict[int, int] = {}
        self.in_flight = 0
        self.placed: dict[int, CommandInLine] = {}
        self.asked = NodeCommands(plan, shard, self.homes, self.peers, self.nodes)
        self.idle_since_ms = 0
        self.refusals: MulticastRefusals = MulticastRefusals(self)

    def step(self, work: ShardWork) -> ShardOutcome:
        """Carry out commands, then other shards' messages, then the inputs' records and commands.

        Records take their place in their senders' lines, whenever they start.
        """
        now, waited = Turn(work.now_ms, work.batch_ms), dict(self.peers.busy)
        self._retire(now)
        steps, messages, payload = unchunk(chunk for _, chunk in work.arrived)
        self._read(work, now)
        numbers = [number for _, some in now.rows for number in some]
        self.rows.add([table for table, _ in now.rows], payload, [*numbers, *messages])
        self._pump(now, (), [*now.let_go, *steps])
        while sends := self._starting(now):
            self._pump(now, sends)
        delivered = self._deliveries(now)
        self.totals.transit += len(now.outgoing) - len(steps)
        outgoing = self._outgoing(now)
        rejected = self._rejects(now)
        self.asked.drop_forgotten()
        self.peers.settle(work.now_ms)
        self._drop_rows()
        since = self.reader.since.items()
        self.reader.since = {node: first for node, first in since if first > self.first_waiting}
        self.totals.blocked = len(self.peers.busy)
        self.totals.waiting = None
        if self.peers.busy != waited:
            names = {raw(name): wait for name, wait in self.peers.busy.items()}
            self.totals.waiting = waiting_report(names)
        self.totals.channels = len(self.peers.texts) - (COUNTER in self.peers.texts)
        writes = [(self.plan.output, delivered), (self.plan.rejects, rejected)]
        writes.append((self.plan.events, output.events(now.events)))
        if not self.plan.progress:
            return ShardOutcome(writes, outgoing, self.rows.table.nbytes)
        # A sender's shard keeps a record until the shards of all its destinations have it, too.
        sent = len(now.outgoing), pa.chunked_array([], pa.int64())
        kept = self.rows.table
        return ShardOutcome(writes, outgoing, kept.nbytes, kept["timestamp"], sent)

    def dump(self) -> str:
        """Encode the state; untouched peers cost only a copy of their text."""
        flying, placed = list(self.flying.items()), list(self.placed.items())
        head = [self.next_id, self.first_waiting, flying, placed, self.rows.ids.tolist()]
        head += [list(self.reader.since.items())] if self.reader.since else []
        parts = [dumps(head).encode(), self.nodes.dump(), self.peers.dump().encode()]
        parts.append(to_ipc(self.rows.table) if len(self.rows.ids) else b"")
        return to_line(join(parts))

    def load(self, state: str) -> None:
        """Restore the shard from ``state``."""
        parts = split(from_line(state), 4)
        self.next_id, self.first_waiting, flying, placed, ids, *more = json.loads(parts[0])
        self.reader.since = dict(more[0]) if more else {}
        self.flying = dict(flying)
        self.in_flight = sum(self.flying.values())
        self.placed = {number: CommandInLine(*fields) for number, fields in placed}
        self.nodes.load(parts[1])
        self.peers.load(parts[2].decode())
        table = from_ipc(parts[3]).combine_chunks() if parts[3] else RECORD.empty_table()
        self.rows.put(table, ids)

    def renew(self, since_ms: int) -> None:
        """See `Core.renew`; it takes effect on a peer when that is next touched."""
        self.peers.renewed_ms = since_ms

    # --- Input.

    def _read(self, work: ShardWork, now: Turn) -> None:
        """Carry out the commands, and make messages of the records that belong to this shard."""
        asked = asked_in(work.records, self.plan.input_commands)
        if asked or len(work.commands):
            self.asked.forget(now)
        for at in range(len(work.commands)):
            self._command(work.commands.slice(at, 1), None, now)
        for first, stop in stretches(len(work.records), asked):
            self._messages(work.records.slice(first, stop - first), now)
            if stop in asked:
                row = work.records.slice(stop, 1)
                self.totals.commands += int(self._is_home(row))
                self._command(row, asked[stop], now)

    def _is_home(self, row: pa.Table) -> bool:
        """Return whether the record in a row belongs to this shard, as a message's would."""
        return bool(shards_of(flat(row["key"]), self.plan.shards)[0] == self.shard)

    def _command(self, record: pa.Table, op: str | None, now: Turn) -> None:
        (row,) = record.to_pylist()
        born = self.nodes.born
        placed = self.asked.carry_out(row, op, now)
        if self.nodes.born > born:
            self.reader.since[born] = self.next_id
        if placed is not None:
            number = self._number()
            self.placed[number] = placed
            now.rows.append((placed_row(record, placed, self.plan), [number]))

    def _number(self) -> int:
        number = self.next_id
        self.next_id += self.plan.shards
        return number

    def _messages(self, records: pa.Table, now: Turn) -> None:
        """Make messages of records that are no commands; reject those that are not valid."""
        if not len(records):
            return
        numbers = [self._number() for _ in range(len(records))]
        messages, bad = self.reader.read(records, numbers, now.ms)
        self.totals.seen += len(records)
        self.totals.held += sum(len(message.destinations) for message in messages)
        for reason in bad.values():
            self.totals.reject(reason)
        now.read |= {message.id: message for message in messages}  # type: ignore[misc]
        if bad:
            now.bad.append((records.take(pa.array(list(bad), pa.int64())), list(bad.values())))
            good = [at for at in range(len(records)) if at not in bad]
            records = records.take(pa.array(good, pa.int64()))
        now.rows.append((records, [message.id for message in messages]))  # type: ignore[misc]

    # --- The protocol.

    def _pump(self, now: Turn, sends: Sequence[Task], steps: Sequence[Any] = ()) -> None:
        """Carry out all steps that are possible on this shard."""
        pumped = self.net.pump(sends, steps)
        now.outgoing += pumped.outgoing
        now.let_go = ()
        for peer, got in pumped.deliveries:
            if isinstance(got, Released):
                self.asked.released(self.rows.one(got.message), peer, got, now)
            elif isinstance(got, Delivery) or got.known:
                now.got.append((peer, got))
                now.counts.append(self.peers.number(peer, now.ms))
        for transaction in pumped.ended:
            self._end(transaction, now)
        if now.let_go:
            self._pump(now, (), now.let_go)

    def _starting(self, now: Turn) -> list[Task]:
        """Return the tasks that may start now, in the order of arrival."""
        starting: list[Task] = []
        while self.first_waiting < self.next_id and self.in_flight < IN_FLIGHT_MAX:
            number = self.first_waiting
            if self._waits(number) and number not in now.read and number not in now.lost:
                self._read_again(now)
            self.first_waiting += self.plan.shards
            if number in self.placed:
                starting.append(self.placed.pop(number).task(number))
                weight = 1
            elif number in now.read:
                message = now.read.pop(number)
                starting.append(message)
                weight = len(message.destinations)
            else:
                if number in now.lost:
                    self._refuse(number, *now.lost[number], now)
                continue
            self.flying[number] = weight
            self.in_flight += weight
        return starting

    def _read_again(self, now: Turn) -> None:
        """Make messages of the next records that were kept waiting by an earlier batch."""
        numbers: list[int] = []
        number = self.first_waiting
        while number < self.next_id and len(numbers) < READ_MAX:
            if self._waits(number):
                numbers.append(number)
            number += self.plan.shards
        rows = self.rows.take(numbers)
        messages, bad = self.reader.read(rows, numbers, now.ms)
        now.read |= {message.id: message for message in messages}  # type: ignore[misc]
        for at, reason in bad.items():  # a node was forgotten while its message waited
            ((to, _),) = last_headers(flat(rows["headers"].slice(at, 1)), ["to"])
            now.lost[numbers[at]] = (reason, len(set(to[0].as_py().split(b","))))

    def _waits(self, number: int) -> bool:
        """Return whether a number is a message that was not rejected on arrival."""
        return number in self.rows.index and number not in self.placed

    def _end(self, transaction: Transaction, now: Turn) -> None:
        """Report the result of a message or a command."""
        task: Any = transaction.task
        weight = self.flying.pop(task.id)
        self.in_flight -= weight
        if isinstance(task, Destruction | Release):
            if transaction.stamp is None:
                raise RuntimeError(f"the command {task} was refused: {transaction.refusal}")
            if isinstance(task, Destruction):
                self.asked.ended(self.rows.one(task.id), task, transaction.stamp, now)
        elif transaction.refusal is not None:
            self._refuse(task.id, transaction.refusal.reason.value, weight, now)
        elif transaction.gone:
            self._undelivered(task, transaction.gone, now)

    def _refuse(self, number: int, reason: str, weight: int, now: Turn) -> None:
        now.refused[number] = reason
        self.totals.reject(reason)
        self.totals.held -= weight

    def _undelivered(self, task: Message, gone: Collection[str], now: Turn) -> None:
        """Add an event for each destination that was destroyed before the message."""
        row = self.rows.one(task.id)
        place = place_of(row, self.plan)
        destroyed = [
            written(destination) for destination in task.destinations if destination.node in gone
        ]
        for name in (written_name.decode(errors="backslashreplace") for written_name in destroyed):
            now.events.append(undelivered(self.plan.pipeline, place, row["key"], name, now.ms))
        self.totals.undelivered += len(destroyed)
        self.totals.held -= len(destroyed)

    def _deliveries(self, now: Turn) -> pa.Table:
        sequence, incarnation = np.array(now.counts, np.int64).reshape(-1, 2).T
        messages = sum(isinstance(delivery, Delivery) for _, delivery in now.got)
        self.totals.delivered += messages
        self.totals.notices += len(now.got) - messages
        self.totals.held -= messages
        counts = (sequence, incarnation)
        table = deliveries(now.got, self.rows.table, self.rows.index, counts, self.plan.named)
        return self.refusals.noted(table, now) if self.names_rows else table

    def _outgoing(self, now: Turn) -> dict[int, list[bytes]]:
        targets = runs_by_shard(now.outgoing, self.homes)
        table = self.rows.table.select(self.plan.carried)
        return {to: runs.chunks(table, self.rows.index) for to, runs in targets.items()}

    def _rejects(self, now: Turn) -> pa.Table:
        bad = [table for table, _ in now.bad]
        table = pa.concat_tables([*bad, self.rows.take(now.refused)]).combine_chunks()
        reasons = [*(reason for _, some in now.bad for reason in some), *now.refused.values()]
        return output.rejects(table, pa.array(reasons, pa.string()), self.plan.inputs)

    def _retire(self, now: Turn) -> None:
        """Forget peers that were inactive for long."""
        due_ms = now.ms - self.plan.retire_after_ms
        if self.idle_since_ms >= due_ms:
            return
        owners, let_go = self.nodes.owners(), partial(self.asked.let_go, now)
        for name, count in self.peers.retire(due_ms, owners, let_go):
            if count.sequence:
                numbers = (count.incarnation, count.sequence)
                now.events.append(retired(self.plan.pipeline, name, numbers, now.ms))
        self.idle_since_ms = min(self.peers.last.values(), default=now.ms)

    def _drop_rows(self) -> None:
        """Drop all records but those that wait, are in flight, or are in a queue here."""
        ids = self.rows.ids
        waiting = (ids % self.plan.shards == self.shard) & (ids >= self.first_waiting)
        needed = set(self.flying).union(*self.peers.queued.values())
        self.rows.keep(waiting | np.isin(ids, np.fromiter(needed, np.int64, len(needed))))
