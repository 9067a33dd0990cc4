"""Discipline `group` on shards: ingresses, sequencing nodes and receivers of overlapping groups.

The protocol is `sequencer.groups.network.shard`; here are the records that it is about, commands
and their answers, and what subscribers see.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.groups.network.hops import Hops
from sequencer.groups.network.shard import GroupShard, ShardMap, Stepped
from sequencer.groups.network.tables import Tables, hosted, pair_names, present_overlaps
from sequencer.ragged import Ints
from streaming.arrow import output
from streaming.arrow.columns import flat
from streaming.arrow.ipc import from_line, to_line
from streaming.arrow.payload import carried
from streaming.arrow.schemas import RECORD
from streaming.arrow.totals import OVERLAPS_MAX
from streaming.disciplines.commands import asked_in, stretches
from streaming.disciplines.exchange import (
    ExchangeCore,
    ExchangeOperator,
    ShardOutcome,
    ShardWork,
)
from streaming.disciplines.groups.commands import (
    Changed,
    GroupCommand,
    carry_out,
    require_own_topics,
)
from streaming.disciplines.groups.network.codec import chunks, dump, load, unchunk
from streaming.disciplines.groups.network.notices import (
    Membership,
    Waiting,
    due,
    table,
    waiting_notices,
)
from streaming.disciplines.groups.network.refused import NetworkRefusals
from streaming.disciplines.groups.network.route import ingress, new_directory, subscriber_shard
from streaming.disciplines.groups.network.stamps import Shown, stamps_shown
from streaming.disciplines.groups.network.waiting import lines_waiting, who_waits
from streaming.disciplines.groups.plan import NetworkPlan
from streaming.disciplines.groups.records import (
    COMMAND,
    REASONS,
    Published,
    by_topic,
    count_records,
    published,
    rejects,
    retired,
)
from streaming.disciplines.shards import Count, next_numbers
from streaming.disciplines.state_keys import shards_of
from streaming.disciplines.undelivered import ROW
from streaming.disciplines.waiting import Wait, waiting_report


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
        self.waiting: list[Waiting] = []
        self.lines_wait: dict[int, Wait] = {}
        self.refusals: NetworkRefusals = NetworkRefusals(self)
        self._shown: Shown | None = None
        self._overlaps: tuple[Tables, Ints, list[tuple[str, str]]] | None = None

    def step(self, work: ShardWork) -> ShardOutcome:
        """Commands first, then what was published, with the commands among it in their place.

        What other shards sent comes before what was published.
        """
        sent = published(work.records)
        asked = asked_in(work.records, self.plan.input_commands)
        sent.why[list(asked)] = COMMAND
        good = sent.good
        arrived, payload = unchunk(work.arrived)
        first_row = len(self.records)
        events = self._place(work, asked, sent, good)
        arrived_row = np.where(arrived.row >= 0, arrived.row + first_row + len(good), -1)
        tables = (self.records, work.records.take(pa.array(good)), payload)
        rows = pa.concat_tables(
            [carried(table, self.plan.carried) for table in tables]
        ).combine_chunks()
        if self.names_rows:
            self.refusals.note(rows)
        stepped = self.net.step(arrived.with_rows(arrived_row))
        self.totals.expected = [*stepped.expected]
        writes = self._written(stepped, rows, work.now_ms)
        events += self._retire(work.now_ms)
        outgoing = {to: chunks(hops, rows) for to, hops in stepped.outgoing.items()}
        self.records = rows.take(pa.array(stepped.held_row)).combine_chunks()
        sent.why[list(asked)] = 0
        self._count(np.delete(sent.why, list(asked)), len(arrived), stepped.outgoing)
        self._note_waiting(work.now_ms)
        return ShardOutcome(
            [
                *writes,
                (self.plan.rejects, rejects(work.records, sent.why, self.plan.inputs)),
                (self.plan.events, output.events(events)),
            ],
            outgoing,
            self.records.nbytes,
            self._kept() if self.plan.progress else None,
            self._sent(rows, stepped.outgoing) if self.plan.progress else None,
        )

    def _kept(self) -> pa.ChunkedArray:
        """The times of what is held, and of notices that wait."""
        times = pa.array([notice.timestamp for notice in self.waiting], pa.int64())
        return pa.chunked_array([flat(self.records["timestamp"]).cast(pa.int64()), times])

    def _sent(self, rows: pa.Table, outgoing: Mapping[int, Hops]) -> tuple[int, pa.ChunkedArray]:
        """Return how many messages leave for other shards, and the times of what they carry."""
        gone = np.concatenate([np.zeros(0, np.int64), *(hops.row for hops in outgoing.values())])
        return len(gone), rows["timestamp"].take(pa.array(gone[gone >= 0]))

    def dump(self) -> str:
        """The state; the directory is encoded anew only where it changed."""
        if self.net.stale or not self.directory_blob:
            self._refresh()
        waiting = [notice.fields() for notice in self.waiting]
        waits = [[line, *wait] for line, wait in self.lines_wait.items()]
        more = {"waiting": waiting, "lines_wait": waits}
        return to_line(dump(self.net, self.directory_blob, self.records, self.known, more))

    def load(self, state: str) -> None:
        """Restore from ``state``."""
        directory, self.records, self.known, more = load(self.net, from_line(state))
        self.directory_blob = directory
        self.waiting = [Waiting.of(fields) for fields in more["waiting"]]
        self.lines_wait = {line: Wait(*wait) for line, *wait in more["lines_wait"]}
        self._shown = None

    def renew(self, since_ms: int) -> None:
        """See `Core.renew`."""
        for count in self.known.values():
            count.renew(since_ms)

    def _refresh(self) -> None:
        self.net.settle()
        self.directory_blob = zlib.compress(self.net.directory.to_json().encode(), 6)

    def _place(
        self, work: ShardWork, asked: Mapping[int, str], sent: Published, good: Ints
    ) -> list[output.Event]:
        """Carry out the commands, as every shard does, and publish what senders wrote between them.

        The first shard reports the commands.
        """
        events: list[output.Event] = []
        for row in work.commands.to_pylist():
            events += self._command(row, None, work.now_ms)
        for first, stop in stretches(len(work.records), asked):
            a, b = np.searchsorted(good, [first, stop]).tolist()
            refused = self.net.publish(
                sent.names, sent.group[good[a:b]], len(self.records) + a, work.now_ms
            )
            for at, reason in refused.items():
                sent.why[good[a + at]] = REASONS.index(reason)
            if stop in asked:
                (row,) = work.records.slice(stop, 1).to_pylist()
                events += self._command(row, asked[stop], work.now_ms)
        is_first = self.net.place.shard == 0
        self.totals.commands += len(asked) if is_first else 0
        return events if is_first else []

    def _command(self, row: Mapping[str, Any], op: str | None, now_ms: int) -> list[output.Event]:
        members: list[Membership] = []
        change = partial(self._change, now_ms=now_ms, members=members)
        carried = carry_out(row, op, self.plan, now_ms, change)
        if carried.change is not None and self.plan.notices:
            (of,) = members
            asked = carried.command.op
            event = dict(carried.change)
            self.waiting += waiting_notices(asked, event, of, row["timestamp"], self._here)
        return carried.events

    def _here(self, names: Sequence[str]) -> list[str]:
        """The subscribers that live in this shard."""
        shards = shards_of(
            pa.array([name.encode() for name in names], pa.binary()), self.plan.shards
        )
        return [names[at] for at in np.flatnonzero(shards == self.net.place.shard).tolist()]

    def _change(self, command: GroupCommand, now_ms: int, members: list[Membership]) -> Changed:
        directory, group = self.net.directory, command.group
        before = directory.view_of.get(group)
        line, was = directory.line(group), directory.groups.get(group, ())
        require_own_topics(command, self.plan, chain.from_iterable(directory.groups.values()))
        change = self.net.change(command.op, group, command.members, now_ms, command.if_version)
        self.directory_blob, self._shown = b"", None
        moved = {name: view.number for view in change.views for name in view.groups}
        moved.pop(group, None)
        version, now = directory.view_of.get(group), directory.groups.get(group, ())
        view = None if version is None else directory.views[version]
        members.append(Membership.of(was, now, view, line))
        return Changed(before, version, len(now), moved)

    def _written(self, stepped: Stepped, rows: pa.Table, now_ms: int) -> list[output.Write]:
        """Deliveries, and notices in their place among them."""
        writes: list[output.Write] = []
        first, last = 0, len(stepped.delivered)
        ends = self.net.ends(stepped)
        now, self.waiting = due(self.waiting, stepped.ended, self.net.unended)
        for place, notice in [*now, (last, None)]:
            if place > first:
                part = stepped.delivered.take(np.arange(first, place))
                deliveries = self._deliveries(part, rows, ends - first, now_ms)
                self.totals.delivered += len(deliveries)
                writes += by_topic(deliveries, self.plan)
                first = place
            if notice is not None:
                who = np.arange(len(notice.names))
                counts = self._counts(who, notice.names, now_ms)
                self.totals.notices += len(who)
                writes += by_topic(table(notice, counts), self.plan)
        return writes

    def _deliveries(self, delivered: Hops, rows: pa.Table, ends: Ints, now_ms: int) -> pa.Table:
        """One record for each message and subscriber of this shard, for the sink.

        ``ends``: by line's place how many of the messages are before the line's end.
        """
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
            stamps = {"stamps": self._shown.texts(delivered, owner, who, ends)}
        origin = {"origin": copied(out["origin"])} if self.plan.origin else {}
        if self.names_rows:
            origin[ROW] = pa.array(delivered.row[owner])
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
        return next_numbers(self.known, who, names, now_ms)

    def _retire(self, now_ms: int) -> list[output.Event]:
        """Forget subscribers that are in no group and got nothing for long."""
        since_ms = now_ms - self.plan.retire_after_ms
        idle = {name for name, count in self.known.items() if count.last_ms < since_ms}
        gone = sorted(idle - self.net.reached()) if idle else []
        events = []
        for name in gone:
            count = self.known.pop(name)
            numbers = (count.incarnation, count.sequence)
            events.append(retired(self.plan.pipeline, name, *numbers, now_ms))
        return events

    def _count(
        self,
        why: NDArray[np.int8],
        arrived: int,
        outgoing: Mapping[int, Hops],
    ) -> None:
        totals = self.totals
        count_records(totals, why)
        held = self.net.receivers.held
        waiting = self.net.tables.members.take(self.net.tables.places(held.line[~held.last]))
        totals.held = len(waiting.values)
        totals.blocked = len(np.unique(waiting.values))
        totals.channels = len(self.known)
        totals.overlaps = self.overlap_numbers()
        totals.transit += sum(map(len, outgoing.values())) - arrived

    def _note_waiting(self, now_ms: int) -> None:
        """Say who waits, where that changed."""
        before, self.lines_wait = self.lines_wait, lines_waiting(self.net, self.lines_wait, now_ms)
        self.totals.waiting = None
        if self.lines_wait != before:
            self.totals.waiting = waiting_report(who_waits(self.net.tables, self.lines_wait))

    def overlap_numbers(self) -> list[list[Any]]:
        """The overlaps that nodes of this shard number, with their next numbers."""
        tables = self.net.tables
        if self._overlaps is None or self._overlaps[0] is not tables:
            here = np.intersect1d(present_overlaps(tables, self.net.directory), hosted(tables))
            names = pair_names(tables, here)
            # By name, as all shards' are: which are left does not depend on the number of shards.
            first = sorted(range(len(names)), key=names.__getitem__)[:OVERLAPS_MAX]
            self._overlaps = (tables, here[first], [names[at] for at in first])
        _, here, names = self._overlaps
        numbers = self.net.atom_next[here].tolist()
        return [[*pair, number] for pair, number in zip(names, numbers, strict=True)]
