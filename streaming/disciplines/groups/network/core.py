"""Discipline `group` on shards: ingresses, sequencing nodes and receivers of overlapping groups.

The protocol is `sequencer.groups.network.shard`; here are the records that it is about, commands
and their answers, and what subscribers see.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.groups.network.hops import Hops
from sequencer.groups.network.routes import Directory
from sequencer.groups.network.shard import GroupShard, ShardMap
from sequencer.sorting import ranks
from streaming.arrow import output
from streaming.arrow.columns import flat
from streaming.arrow.ipc import from_line, to_line
from streaming.arrow.payload import carried
from streaming.arrow.schemas import RECORD
from streaming.disciplines.exchange import (
    ExchangeCore,
    ExchangeOperator,
    Route,
    ShardOutcome,
    ShardWork,
)
from streaming.disciplines.groups.commands import Changed, GroupCommand, carry_out
from streaming.disciplines.groups.network.codec import chunks, dump, load, unchunk
from streaming.disciplines.groups.network.stamps import Shown, stamps_shown
from streaming.disciplines.groups.plan import NetworkPlan
from streaming.disciplines.groups.records import (
    REASONS,
    by_topic,
    count_records,
    groups_of,
    published,
    rejects,
    retired,
)
from streaming.disciplines.shards import Count
from streaming.disciplines.state_keys import shard_of_name


def shard_of(node: int, plan: NetworkPlan) -> int:
    """The shard that hosts a node."""
    return node % plan.shards


def subscriber_shard(name: str, plan: NetworkPlan) -> int:
    """The shard of a subscriber."""
    return shard_of_name(name.encode(), plan.shards)


def ingress(name: str, plan: NetworkPlan) -> int:
    """The shard that numbers a group's messages, for ever: where its path begins at first."""
    node = plan.ingress.get(name)
    if node is None:
        # A record may name a group in any bytes: it is unknown, and rejected by this shard.
        node = shard_of(shard_of_name(name.encode(errors="surrogateescape"), plan.nodes), plan)
    return node


def first_ingress(plan: NetworkPlan) -> dict[str, int]:
    """Where the paths of the first membership begin, for groups that have one."""
    directory = new_directory(plan)
    directory.begin(plan.groups)
    paths = [path for view in directory.views.values() for path in view.paths.items()]
    return {name: runs[0].shard for name, runs in paths if runs}


def new_directory(plan: NetworkPlan) -> Directory:
    """A directory without groups."""
    return Directory(plan.nodes, partial(shard_of, plan=plan), plan.retire_after_ms)


def route(plan: NetworkPlan) -> Route:
    """The shard of each input record: that of its group's ingress."""
    return partial(_route, plan=plan)


def _route(table: pa.Table, plan: NetworkPlan) -> NDArray[np.int64]:
    codes, names = groups_of(table)
    shards = np.array([ingress(name, plan) for name in names] or [0], dtype=np.int64)
    return shards[np.maximum(codes, 0)]


class NetworkOperator(ExchangeOperator):
    """The operator of a pipeline of discipline `group`."""

    plan: NetworkPlan

    def core(self, shard: int) -> NetworkCore:
        """A shard as at the beginning of the checkpoint, with the first membership."""
        return NetworkCore(self.plan, shard)


class NetworkCore(ExchangeCore):
    """One shard: its part of the network, what its receivers hold, its subscribers' counts.

    ``known``: the count of each subscriber that ever got something.
    """

    def __init__(self, plan: NetworkPlan, shard: int) -> None:
        super().__init__()
        self.plan = plan
        directory = new_directory(plan)
        directory.begin(plan.groups)
        place = ShardMap(shard, partial(ingress, plan=plan), partial(subscriber_shard, plan=plan))
        self.net = GroupShard(place, directory)
        self.records = RECORD.empty_table()
        self.known: dict[str, Count] = {}
        self.directory_blob = b""
        self._shown: Shown | None = None

    def step(self, work: ShardWork) -> ShardOutcome:
        """Commands first, then what other shards sent, then what was published."""
        events = self._commands(work)
        sent = published(work.records)
        good = sent.good
        arrived, payload = unchunk(work.arrived)
        first_row = len(self.records)
        arrived_row = np.where(arrived.row >= 0, arrived.row + first_row + len(good), -1)
        tables = (self.records, work.records.take(pa.array(good)), payload)
        rows = pa.concat_tables(
            [carried(table, self.plan.carried) for table in tables]
        ).combine_chunks()
        stepped = self.net.step(
            arrived.with_rows(arrived_row), sent.names, sent.group[good], first_row, work.now_ms
        )
        for at, reason in stepped.refused.items():
            sent.why[good[at]] = REASONS.index(reason)
        deliveries = self._deliveries(stepped.delivered, rows, work.now_ms)
        events += self._retire(work.now_ms)
        outgoing = {to: chunks(hops, rows) for to, hops in stepped.outgoing.items()}
        self.records = rows.take(pa.array(stepped.held_row)).combine_chunks()
        self._count(sent.why, len(deliveries), len(arrived), stepped.outgoing)
        return ShardOutcome(
            [
                *by_topic(deliveries, self.plan),
                (self.plan.rejects, rejects(work.records, sent.why, self.plan.inputs)),
                (self.plan.events, output.events(events)),
            ],
            outgoing,
            self.records["timestamp"] if self.plan.progress else None,
            self._sent(rows, stepped.outgoing) if self.plan.progress else None,
        )

    def _sent(self, rows: pa.Table, outgoing: Mapping[int, Hops]) -> tuple[int, pa.ChunkedArray]:
        """How many messages leave for other shards, and the times of what they carry."""
        gone = np.concatenate([np.zeros(0, np.int64), *(hops.row for hops in outgoing.values())])
        return len(gone), rows["timestamp"].take(pa.array(gone[gone >= 0]))

    def dump(self) -> str:
        """The state; the directory is encoded anew only where it changed."""
        if self.net.stale or not self.directory_blob:
            self._refresh()
        return to_line(dump(self.net, self.directory_blob, self.records, self.known))

    def load(self, state: str) -> None:
        """Become what ``state`` was dumped from."""
        self.directory_blob, self.records, self.known = load(self.net, from_line(state))
        self._shown = None

    def renew(self, since_ms: int) -> None:
        """See `Core.renew`."""
        for count in self.known.values():
            count.renew(since_ms)

    def _refresh(self) -> None:
        self.net.settle()
        self.directory_blob = zlib.compress(self.net.directory.to_json().encode(), 6)

    def _commands(self, work: ShardWork) -> list[output.Event]:
        """Carry out the commands, as every shard does; the first one tells of it."""
        change = partial(self._change, now_ms=work.now_ms)
        events: list[output.Event] = []
        for row in work.commands.to_pylist():
            events += carry_out(row, None, self.plan, work.now_ms, change).events
        return events if self.net.place.shard == 0 else []

    def _change(self, command: GroupCommand, now_ms: int) -> Changed:
        directory = self.net.directory
        before = directory.view_of.get(command.group)
        change = self.net.change(
            command.op, command.group, command.members, now_ms, command.if_version
        )
        self.directory_blob, self._shown = b"", None
        moved = {group: view.number for view in change.views for group in view.groups}
        moved.pop(command.group, None)
        count = len(directory.groups.get(command.group, ()))
        return Changed(before, directory.view_of.get(command.group), count, moved)

    def _deliveries(self, delivered: Hops, rows: pa.Table, now_ms: int) -> pa.Table:
        """One record for each message and subscriber of this shard, for the sink."""
        tables = self.net.tables
        place = tables.places(delivered.line)
        members = tables.members.take(place)
        owner, who = members.owners(), members.values
        names = pa.array([name.encode() for name in tables.subscribers], pa.binary())
        sequence, incarnation = self._counts(who, tables.subscribers, now_ms)
        out = rows.take(pa.array(delivered.row))
        out = output.with_origin(out, out, self.plan.named)
        message = pa.array(owner.astype(np.int32))

        def copied(column: pa.Array) -> pa.DictionaryArray:
            """What all copies of a message share crosses to the sink once."""
            return pa.DictionaryArray.from_arrays(message, flat(column))

        stamps = {}
        if self.plan.stamps:
            if self._shown is None or self._shown.tables is not tables:
                self._shown = stamps_shown(tables)
            stamps = {"stamps": self._shown.texts(delivered, owner, who)}
        origin = {"origin": copied(out["origin"])} if self.plan.origin else {}
        return pa.table(
            {
                "key": pa.DictionaryArray.from_arrays(pa.array(who.astype(np.int32)), names),
                "value": copied(out["value"]),
                "headers": copied(out["headers"]),
                "timestamp": copied(out["timestamp"]),
                "sender": copied(out["key"]),
                "group-sequence": copied(pa.array(delivered.number)),
                "group-version": copied(pa.array(tables.view[place])),
                **stamps,
                "sequence": pa.array(sequence),
                "incarnation": pa.array(incarnation),
                **origin,
            }
        )

    def _counts(
        self, who: NDArray[np.int64], names: Sequence[str], now_ms: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """`sequence` and `incarnation` of each delivery; the subscribers' counts go on."""
        rank, distinct, counts = ranks(who)
        first = np.zeros(len(distinct), dtype=np.int64)
        born = np.zeros(len(distinct), dtype=np.int64)
        for at, (place, count) in enumerate(zip(distinct.tolist(), counts.tolist(), strict=True)):
            known = self.known.setdefault(names[place], Count(0, now_ms, now_ms))
            first[at], born[at] = known.sequence, known.incarnation
            known.sequence += count
            known.last_ms = now_ms
        inverse = np.searchsorted(distinct, who)
        return first[inverse] + rank, born[inverse]

    def _retire(self, now_ms: int) -> list[output.Event]:
        """Forget subscribers that are in no group and got nothing for long."""
        members = self.net.tables.subscribers
        if len(self.known) <= len(members):
            return []
        left = self.known.keys() - set(members)
        gone = sorted(
            name for name in left if now_ms - self.known[name].last_ms > self.plan.retire_after_ms
        )
        events = []
        for name in gone:
            count = self.known.pop(name)
            numbers = (count.incarnation, count.sequence)
            events.append(retired(self.plan.pipeline, name, *numbers, now_ms))
        return events

    def _count(
        self,
        why: NDArray[np.int8],
        deliveries: int,
        arrived: int,
        outgoing: Mapping[int, Hops],
    ) -> None:
        totals = self.totals
        count_records(totals, why)
        totals.delivered += deliveries
        held = self.net.receivers.held
        waiting = self.net.tables.members.take(self.net.tables.places(held.line[~held.last]))
        totals.held = len(waiting.values)
        totals.blocked = len(np.unique(waiting.values))
        totals.channels = len(self.known)
        totals.transit += sum(map(len, outgoing.values())) - arrived
