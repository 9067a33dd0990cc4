"""Discipline `multicast` on shards: senders, their messages' way to any peers, one order of all.

The protocol is `sequencer.multicast`; here are the records that it is about, nodes by command, and
what peers see.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.multicast import COUNTER, Bus, Delivery, Destruction, Message, Shard, Transaction
from sequencer.multicast.protocol.nodes import OwnedNodes
from sequencer.multicast.protocol.words import let_go
from streaming.arrow import output
from streaming.arrow.columns import flat, last_headers
from streaming.arrow.ipc import from_ipc, from_line, join, split, to_ipc, to_line
from streaming.arrow.schemas import RECORD
from streaming.disciplines.commands import Refused, place_of
from streaming.disciplines.exchange import ExchangeCore, ExchangeOperator, ShardOutcome, ShardWork
from streaming.disciplines.multicast.commands import (
    DESTROY,
    RELEASE,
    command_id,
    read_command,
    signed,
)
from streaming.disciplines.multicast.events import retired, undelivered
from streaming.disciplines.multicast.nodes import KnownNode, Nodes, bare, latin, shown
from streaming.disciplines.multicast.plan import MulticastPlan
from streaming.disciplines.multicast.protocol.codec import dumps, runs_by_shard, unchunk
from streaming.disciplines.multicast.protocol.peers import Peers
from streaming.disciplines.multicast.protocol.route import Homes
from streaming.disciplines.multicast.protocol.rows import Rows
from streaming.disciplines.multicast.protocol.turn import Turn
from streaming.disciplines.multicast.records import Reader, deliveries, written

IN_FLIGHT_MAX = 50_000
"""Destinations of messages that a shard's senders have on their way at the same time; what goes
beyond waits in the order of arrival. One message may be larger."""

READ_MAX = 5_000


class MulticastOperator(ExchangeOperator):
    """The operator of a pipeline of discipline `multicast`."""

    plan: MulticastPlan

    def core(self, shard: int) -> MulticastCore:
        """A shard as at the beginning of the checkpoint: without nodes."""
        return MulticastCore(self.plan, shard)


class MulticastCore(ExchangeCore):
    """One shard: its senders and peers, and the records that are on their way from or to them.

    ``rows`` are those records under ``ids``: a number for each message, different in all shards.
    Of the shard's own, those from ``first_waiting`` on have not started yet; ``flying`` has the
    others until their transaction ends, with the number of their destinations. ``ends`` are the
    destructions that have not started: the node and its owner. ``bus_type``: not the order's own.
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
        self.rows = Rows()
        self.next_id = self.first_waiting = shard
        self.flying: dict[int, int] = {}
        self.in_flight = 0
        self.ends: dict[int, tuple[str, str]] = {}
        self.idle_since_ms = 0

    def step(self, work: ShardWork) -> ShardOutcome:
        """Commands first, then what other shards sent, then what senders sent."""
        now = Turn(work.now_ms)
        self._retire(now)
        steps, messages, payload = unchunk(chunk for _, chunk in work.arrived)
        destructions = self._commands(work.commands, now)
        records = self._read(work.records, now)
        ending = list(self.ends)[len(self.ends) - len(destructions) :]
        self.rows.add([destructions, records], payload, [*ending, *now.read, *messages])
        self._pump(now, (), [*now.let_go, *steps])
        while sends := self._starting(now):
            self._pump(now, sends)
        delivered = self._deliveries(now)
        self.totals.transit += len(now.outgoing) - len(steps)
        outgoing = self._outgoing(now)
        rejected = self._rejects(work.records, now)
        self.peers.settle(work.now_ms)
        self._drop_rows()
        self.totals.blocked = len(self.peers.busy)
        self.totals.channels = len(self.peers.texts) - (COUNTER in self.peers.texts)
        writes = [(self.plan.output, delivered), (self.plan.rejects, rejected)]
        writes.append((self.plan.events, output.events(now.events)))
        kept = self.rows.table["timestamp"] if self.plan.progress else None
        return ShardOutcome(writes, outgoing, kept)

    def dump(self) -> str:
        """The state; peers that nothing touched cost their text only."""
        flying, ends = list(self.flying.items()), list(self.ends.items())
        head = dumps([self.next_id, self.first_waiting, flying, ends, self.rows.ids.tolist()])
        parts = [head.encode(), self.nodes.dump(), self.peers.dump().encode()]
        parts.append(to_ipc(self.rows.table) if len(self.rows.ids) else b"")
        return to_line(join(parts))

    def load(self, state: str) -> None:
        """Become what ``state`` was dumped from."""
        parts = split(from_line(state), 4)
        self.next_id, self.first_waiting, flying, ends, ids = json.loads(parts[0])
        self.flying = dict(flying)
        self.in_flight = sum(self.flying.values())
        self.ends = {number: (node, owner) for number, (node, owner) in ends}
        self.nodes.load(parts[1])
        self.peers.load(parts[2].decode())
        table = from_ipc(parts[3]).combine_chunks() if parts[3] else RECORD.empty_table()
        self.rows.put(table, ids)

    def renew(self, since_ms: int) -> None:
        """See `Core.renew`; of each peer when it is next touched."""
        self.peers.renewed_ms = since_ms

    # --- What came in.

    def _commands(self, commands: pa.Table, now: Turn) -> pa.Table:
        """Carry out the commands, as every shard does; the destructions that start here.

        These are answered when they have their stamp, by the shard of the node's owner; the rest
        is answered at once, by the first shard.
        """
        if not len(commands):
            return commands
        for life in self.nodes.forget(now.ms):
            self._with_keeper(life, OwnedNodes.forget)
        starting: dict[int, KnownNode] = {}
        for at, row in enumerate(commands.to_pylist()):
            more: dict[str, Any]
            try:
                command = read_command(row["value"])
                life = self.nodes.do(command, now.ms)
                if command.op == DESTROY:
                    if self.homes[life.owner] == self.shard:
                        starting[at] = life
                    continue
                more = command.repeated()
                if command.op == RELEASE:
                    self._release(command.other, life, row, more, now)
                    continue
                self._with_keeper(life, OwnedNodes.create)
            except Refused as refused:
                more = {"reason": refused.reason, "detail": refused.detail}
            if self.shard == 0:
                self._answer(row, more, now)
        for life in starting.values():
            self.ends[self._number()] = (life.id, life.owner)
        return commands.take(pa.array(list(starting), pa.int64()))

    def _with_keeper(self, life: KnownNode, change: Callable[[OwnedNodes, str], None]) -> None:
        """Change what whoever answers for a node keeps of it, if that is here."""
        if self.homes[self.bus.keeper(life.owner)] == self.shard:
            change(self.bus.kept_nodes(life.owner), life.id)

    def _release(
        self, name: str, life: KnownNode, row: Mapping[str, Any], more: dict[str, Any], now: Turn
    ) -> None:
        """A peer gives back a handle, if the peer is here; its shard answers."""
        peer = latin(name.encode())
        if self.homes[peer] != self.shard:
            return
        if place := self.peers.place(peer):
            keeper = self.bus.keeper(life.owner)
            now.let_go += self.bus.party(peer).release(life.id, keeper)
        self._answer(row, more | place, now)

    def _answer(self, row: Mapping[str, Any], more: Mapping[str, Any], now: Turn) -> None:
        asked_as, more = command_id(row["value"]), {**more, **signed(row["value"])}
        now.events.append(
            output.answer(self.plan.pipeline, place_of(row, self.plan), asked_as, now.ms, more)
        )

    def _number(self) -> int:
        number = self.next_id
        self.next_id += self.plan.shards
        return number

    def _read(self, records: pa.Table, now: Turn) -> pa.Table:
        """Make messages of the records; those that became one."""
        numbers = [self._number() for _ in range(len(records))]
        messages, now.bad = self.reader.read(records, numbers, now.ms)
        self.totals.seen += len(records)
        self.totals.held += sum(len(message.destinations) for message in messages)
        for reason in now.bad.values():
            self.totals.reject(reason)
        now.read = {message.id: message for message in messages}  # type: ignore[misc]
        if not now.bad:
            return records
        good = [at for at in range(len(records)) if at not in now.bad]
        return records.take(pa.array(good, pa.int64()))

    # --- The protocol.

    def _pump(
        self, now: Turn, sends: Sequence[Message | Destruction], steps: Sequence[Any] = ()
    ) -> None:
        """Carry out all that can be done here."""
        pumped = self.net.pump(sends, steps)
        now.outgoing += pumped.outgoing
        now.got += [
            (peer, d) for peer, d in pumped.deliveries if isinstance(d, Delivery) or d.known
        ]
        for transaction in pumped.ended:
            self._end(transaction, now)

    def _starting(self, now: Turn) -> list[Message | Destruction]:
        """The messages that may start now, in the order of arrival."""
        starting: list[Message | Destruction] = []
        while self.first_waiting < self.next_id and self.in_flight < IN_FLIGHT_MAX:
            number = self.first_waiting
            if self._waits(number) and number not in now.read and number not in now.lost:
                self._read_again(now)
            self.first_waiting += self.plan.shards
            if number in self.ends:
                node, owner = self.ends.pop(number)
                starting.append(Destruction(number, owner, node))
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
        """Make messages of the next records that wait since an earlier batch."""
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
        """Whether a number is a message, and not one that was rejected on arrival."""
        return number in self.rows.index and number not in self.ends

    def _end(self, transaction: Transaction, now: Turn) -> None:
        """Tell what became of a message, or of a node."""
        task: Any = transaction.task
        weight = self.flying.pop(task.id)
        self.in_flight -= weight
        if isinstance(task, Destruction):
            if transaction.stamp is None:
                raise RuntimeError(f"the destruction of {task.node} was refused: {transaction}")
            timestamp, owner = transaction.stamp
            node = {"op": DESTROY, "node": shown(bare(task.node))}
            row = self.rows.one(task.id)
            self._answer(row, {**node, "timestamp": timestamp, "from": shown(owner)}, now)
        elif transaction.refusal is not None:
            self._refuse(task.id, transaction.refusal.reason.value, weight, now)
        elif transaction.gone:
            self._undelivered(task, transaction.gone, now)

    def _refuse(self, number: int, reason: str, weight: int, now: Turn) -> None:
        now.refused[number] = reason
        self.totals.reject(reason)
        self.totals.held -= weight

    def _undelivered(self, task: Message, gone: Collection[str], now: Turn) -> None:
        """An event for each destination that was destroyed before the message."""
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
        counts = self.peers.number([peer for peer, _ in now.got], now.ms)
        messages = sum(isinstance(delivery, Delivery) for _, delivery in now.got)
        self.totals.delivered += messages
        self.totals.notices += len(now.got) - messages
        self.totals.held -= messages
        return deliveries(now.got, self.rows.table, self.rows.index, counts, self.plan.named)

    def _outgoing(self, now: Turn) -> dict[int, list[bytes]]:
        targets = runs_by_shard(now.outgoing, self.homes)
        table = self.rows.table.select(self.plan.carried)
        return {to: runs.chunks(table, self.rows.index) for to, runs in targets.items()}

    def _rejects(self, records: pa.Table, now: Turn) -> pa.Table:
        at = pa.array(list(now.bad), pa.int64())
        table = pa.concat_tables([records.take(at), self.rows.take(now.refused)]).combine_chunks()
        reasons = [*now.bad.values(), *now.refused.values()]
        return output.rejects(table, pa.array(reasons, pa.string()), self.plan.inputs)

    def _retire(self, now: Turn) -> None:
        """Forget peers that took no part for long."""
        due_ms = now.ms - self.plan.retire_after_ms
        if self.idle_since_ms >= due_ms:
            return
        for name, count in self.peers.retire(due_ms, partial(self._let_go, now)):
            if count.sequence:
                numbers = (count.incarnation, count.sequence)
                now.events.append(retired(self.plan.pipeline, name, numbers, now.ms))
        self.idle_since_ms = min(self.peers.last.values(), default=now.ms)

    def _let_go(self, now: Turn, peer: str, node: str, registered: int) -> None:
        """A peer that is forgotten gives back its handle to a node."""
        life = self.nodes.lives.get(bare(node))
        if life is not None and life.id == node:
            now.let_go += let_go(peer, self.bus.keeper(life.owner), node, registered)

    def _drop_rows(self) -> None:
        """Keep the records that wait, are on their way, or lie in a queue here."""
        ids = self.rows.ids
        waiting = (ids % self.plan.shards == self.shard) & (ids >= self.first_waiting)
        needed = set(self.flying).union(*self.peers.queued.values())
        self.rows.keep(waiting | np.isin(ids, np.fromiter(needed, np.int64, len(needed))))
