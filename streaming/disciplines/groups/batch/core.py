"""Discipline `group` in the order of the batch: every shard counts all numbers by itself.

The protocol is `sequencer.groups`; here are the records that it is about, commands and answers.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.groups.batch.directory import Directory
from sequencer.groups.batch.shard import SLICE_MAX, BatchShard, Moved, Slice
from sequencer.groups.batch.subscribers import Subscribers
from sequencer.ragged import Ints
from streaming.arrow import output
from streaming.arrow.columns import flat
from streaming.arrow.ipc import from_line, to_line
from streaming.arrow.totals import OVERLAPS_MAX
from streaming.disciplines.broadcast import (
    BroadcastCore,
    BroadcastOperator,
    BroadcastWork,
    record_homes,
)
from streaming.disciplines.commands import asked_in, stretches
from streaming.disciplines.groups.batch import codec
from streaming.disciplines.groups.commands import (
    Carried,
    Changed,
    GroupCommand,
    carry_out,
    require_own_topics,
)
from streaming.disciplines.groups.notices import detail, notices, words
from streaming.disciplines.groups.plan import BatchPlan
from streaming.disciplines.groups.records import (
    COMMAND,
    REASONS,
    Past,
    Published,
    by_topic,
    count_records,
    published,
    rejects,
    retired,
)
from streaming.disciplines.refused import Name
from streaming.disciplines.state_keys import shards_of

IDLE_MAX = 1_000
"""Up to this many subscribers and groups that no longer exist stay in the tables."""

NOBODY: Ints = np.empty(0, np.int64)


class BatchOperator(BroadcastOperator):
    """The operator of a pipeline of discipline `group` with `sequencing = "batch"`."""

    plan: BatchPlan

    def core(self, shard: int) -> BatchCore:
        """A shard as at the beginning of the checkpoint, with the first membership."""
        return BatchCore(self.plan, shard)

    def renewed(self, shard: int, stale: BroadcastCore) -> BroadcastCore:
        """A new core; where the groups have not changed meanwhile, it need not read them again."""
        known = stale.known if isinstance(stale, BatchCore) else None
        return BatchCore(self.plan, shard, known)


class BatchCore(BroadcastCore):
    """One shard. ``known``: its groups as bytes (empty for the first membership), and in use."""

    def __init__(
        self, plan: BatchPlan, number: int, known: tuple[bytes, BatchShard] | None = None
    ) -> None:
        super().__init__()
        self.plan = plan
        self.number = number
        self.first = codec.decode_first(plan.membership)
        self.changed = False
        self.known = known
        self.past: list[Past] = []
        self.sent: Published | None = None

    @property
    def shard(self) -> BatchShard:
        """The groups and what is counted of them."""
        return self._known()[1]

    def _known(self) -> tuple[bytes, BatchShard]:
        """The first membership where nothing else is known."""
        if self.known is None:
            directory = Directory.begin(self.first, self.plan.retire_after_ms)
            self.known = (b"", self._shard(directory))
        return self.known

    def step(self, work: BroadcastWork) -> Iterator[output.Write]:
        """Commands first, then the records in their order: messages, and commands among them."""
        events: list[output.Event] = []
        self.past = []
        for row in work.commands.to_pylist():
            yield from self._command(row, None, 0, work, events)
        asked = asked_in(work.records, self.plan.input_commands)
        sent = self.sent = self._sent(work)
        for first, stop in stretches(len(work.records), asked):
            yield from self._messages(work, sent, first, stop)
            if stop in asked:
                (row,) = work.records.slice(stop, 1).to_pylist()
                yield from self._command(row, asked[stop], stop, work, events)
        events += self._retire(work.now_ms)
        here = record_homes(work.records, self.plan.shards) == self.number
        self.totals.commands += int((here & (sent.why == COMMAND)).sum())
        here = np.flatnonzero(here & (sent.why != COMMAND))
        count_records(self.totals, sent.why[here])
        self.totals.channels = int(self.shard.subscribers.born.sum())
        if self.number == 0:
            self.totals.overlaps = [*self.shard.overlaps(OVERLAPS_MAX)]
        records = work.records.take(pa.array(here))
        yield self.plan.rejects, rejects(records, sent.why[here], self.plan.inputs)
        yield self.plan.events, output.events(events)

    def _sent(self, work: BroadcastWork) -> Published:
        """What senders wrote, but for commands."""
        sent = published(work.records)
        sent.why[list(asked_in(work.records, self.plan.input_commands))] = COMMAND
        return sent

    def _messages(
        self, work: BroadcastWork, sent: Published, first: int, stop: int
    ) -> Iterator[output.Write]:
        """Deliver the messages among the records from ``first`` to ``stop``."""
        good = sent.good
        good = good[slice(*np.searchsorted(good, [first, stop]))]
        group = self._groups(sent, good, work.now_ms)
        rows = work.records.take(pa.array(good[sent.why[good] == 0])).combine_chunks()
        rows = output.with_origin(rows, rows, self.plan.named)
        for part in self.shard.take(group, work.now_ms):
            deliveries = self._deliveries(part, rows)
            self.totals.delivered += len(deliveries)
            yield from by_topic(deliveries, self.plan)

    def unspend(self, counts: Mapping[bytes, int]) -> None:
        """Take back this many of the last sequence numbers of these subscribers."""
        places = {name: at for at, name in enumerate(self.shard.directory.subscribers)}
        for key, count in counts.items():
            self.shard.subscribers.sequence[places[key.decode()]] -= count

    def is_notice(self, work: BroadcastWork, name: Name) -> bool:
        """Return whether a delivery reports a change."""
        del work
        return self.plan.message_of(name)[0][0] is None

    def origin(self, work: BroadcastWork, name: Name) -> int:
        """Return the record that is this message of its group, or what a notice reports."""
        (group, version, own, *details), _ = self.plan.message_of(name)
        if group is None:
            return work.row_of(json.loads(details[0] or "{}"), self.plan)
        first, stop, after = self._span(str(group), int(version or 0), len(work.records))
        sent = self.sent or self._sent(work)
        there = sent.good[sent.group[sent.good] == sent.names.index(str(group))]
        records = there[(there >= first) & (there < stop)]
        return int(records[int(own or 0) - (after - len(records))])

    def destinations(self, work: BroadcastWork, record: int) -> Collection[str]:
        """Return the members of a record's group."""
        sent, directory = self.sent or self._sent(work), self.shard.directory
        group = sent.names[int(sent.group[record])]
        past = (each.members for each in self.past if each.group == group and each.at > record)
        members = next(past, None)
        if members is None:
            members = directory.groups[group].members
        return {directory.subscribers[subscriber] for subscriber in members.tolist()}

    def _span(self, group: str, version: int, count: int) -> tuple[int, int, int]:
        """The records (half-open) that have this version's messages, and how many it had then."""
        first = 0
        for each in self.past:
            if each.group == group and each.version == version:
                return first, each.at, each.messages
            first = each.at if each.group == group else first
        number, directory = self.shard.directory.number(group), self.shard.directory
        return first, count, int(directory.count[number] - directory.start[number])

    def dump(self) -> str:
        """The state; the directory is encoded anew only where it changed."""
        self.sent = None  # of a batch that is done
        if self.changed:
            shard = self._tidy()
            self.known = (codec.encode_directory(shard.directory, self.first), shard)
            self.changed = False
        data, shard = self._known()
        return to_line(codec.encode(data, shard.directory, shard.subscribers))

    def load(self, state: str) -> None:
        """Restore from ``state``."""
        data, counts, subscribers = codec.parts(from_line(state))
        if self.known is None or self.known[0] != data:
            self.known = None
            if data:
                directory = codec.decode_directory(data, self.first, self.plan.retire_after_ms)
                self.known = (data, self._shard(directory))
        codec.load_counts(self.shard.directory, counts)
        codec.load_subscribers(self.shard.subscribers, subscribers)

    def renew(self, since_ms: int) -> None:
        """See `Core.renew`."""
        self.shard.subscribers.renew(since_ms)

    def _shard(self, directory: Directory) -> BatchShard:
        mine = self._mine(directory.subscribers)
        return BatchShard(directory, Subscribers.fresh(mine), self._mine, self.plan.stamps)

    def _mine(self, names: Sequence[str]) -> NDArray[np.bool_]:
        keys = pa.array([name.encode() for name in names], pa.binary())
        return np.asarray(shards_of(keys, self.plan.shards) == self.number)

    def _command(
        self,
        row: Mapping[str, Any],
        op: str | None,
        at: int,
        work: BroadcastWork,
        events: list[output.Event],
    ) -> Iterator[output.Write]:
        """Carry out a command before the record ``at``, as every shard does; the first answers.

        Each writes the notices to its own subscribers, if there are to be any.
        """
        moved: list[Moved] = []
        change = partial(self._change, now_ms=work.now_ms, at=at, moved=moved)
        carried = carry_out(row, op, self.plan, work.now_ms, change)
        if self.number == 0:
            events += carried.events
        if carried.change is not None and self.plan.notices:
            yield from self._notices(carried, moved[0], row["timestamp"], work.now_ms)

    def _change(self, command: GroupCommand, now_ms: int, at: int, moved: list[Moved]) -> Changed:
        directory = self.shard.directory
        there = directory.groups.get(command.group)
        before = messages = None
        members = NOBODY
        if there is not None:
            before, members = int(directory.version[there.number]), there.members
            messages = int(directory.count[there.number] - directory.start[there.number])
        grouped = np.flatnonzero(self.shard.grouped)
        require_own_topics(command, self.plan, (directory.subscribers[each] for each in grouped))
        change = self.shard.change(
            command.op, command.group, command.members, now_ms, command.if_version
        )
        moved.append(change)
        group = change.group
        version = None if command.op == "remove" else int(directory.version[group.number])
        if version != before:
            self.changed = True
            self.past.append(Past(at, command.group, before, messages or 0, members))
        return Changed(before, version, len(group.members))

    def _notices(
        self, carried: Carried, moved: Moved, timestamp: int, now_ms: int
    ) -> Iterator[output.Write]:
        """Return the notices of a change, to the members after it and to those that left."""
        shard, op = self.shard, carried.command.op
        names = shard.directory.subscribers
        after = NOBODY if op == "remove" else moved.group.members
        if not len(moved.entered) + len(moved.left):
            return
        who = np.union1d(after, moved.left)
        who = who[shard.subscribers.mine[who]]
        entered, left = ([names[each] for each in some.tolist()] for some in moved[1:])
        text = detail(carried.change or {}, op, entered, left, len(after))
        for first in range(0, len(who), SLICE_MAX):
            part = who[first : first + SLICE_MAX]
            sequence, incarnation, _, _ = shard.subscribers.deliver(part, now_ms)
            self.totals.notices += len(part)
            table = notices(
                [names[each] for each in part.tolist()],
                words(op, part, moved.entered, moved.left),
                text,
                timestamp,
                {"sequence": sequence, "incarnation": incarnation},
            )
            yield from by_topic(table, self.plan)

    def _groups(self, sent: Published, good: Ints, now_ms: int) -> Ints:
        """The groups of the messages that have one, of the rows ``good``; others get a reason."""
        numbers = np.array([self.shard.directory.number(name) for name in sent.names], np.int64)
        codes = sent.group[good]
        group = numbers[codes]
        reasons = [
            0 if number >= 0 else REASONS.index(self.shard.why(name, now_ms))
            for name, number in zip(sent.names, numbers.tolist(), strict=True)
        ]
        sent.why[good] = np.array(reasons, np.int8)[codes]
        return group[group >= 0]

    def _deliveries(self, part: Slice, rows: pa.Table) -> pa.Table:
        """One record for each delivery, for the sink; what copies share is in it once."""
        out = rows.slice(part.first, len(part.number))
        message = pa.array(part.message.astype(np.int32))
        names = [
            self.shard.directory.subscribers[subscriber].encode()
            for subscriber in part.who.tolist()
        ]
        keys = pa.array(names, pa.binary())

        def copied(column: pa.Array) -> pa.DictionaryArray:
            return pa.DictionaryArray.from_arrays(message, flat(column))

        columns = {
            "key": pa.DictionaryArray.from_arrays(pa.array(part.place.astype(np.int32)), keys),
            "value": copied(out["value"]),
            "headers": copied(out["headers"]),
            "timestamp": copied(out["timestamp"]),
            "sender": copied(out["key"]),
            "group-sequence": copied(pa.array(part.number)),
            "group-version": copied(pa.array(part.version)),
        }
        if part.stamps is not None:
            columns["stamps"] = part.stamps
        columns |= {"sequence": pa.array(part.sequence), "incarnation": pa.array(part.incarnation)}
        return pa.table(columns | ({"origin": copied(out["origin"])} if self.plan.origin else {}))

    def _retire(self, now_ms: int) -> list[output.Event]:
        """Forget subscribers that are in no group and got nothing for long."""
        gone = self.shard.idle(now_ms - self.plan.retire_after_ms)
        of = self.shard.subscribers
        numbers = zip(of.incarnation[gone].tolist(), of.sequence[gone].tolist(), strict=True)
        names = [self.shard.directory.subscribers[subscriber] for subscriber in gone.tolist()]
        events = [
            retired(self.plan.pipeline, name, incarnation, sequence, now_ms)
            for name, (incarnation, sequence) in zip(names, numbers, strict=True)
        ]
        of.forget(gone)
        return events

    def _tidy(self) -> BatchShard:
        """Return the shard without what is not needed, once that is most of it."""
        shard, directory = self.shard, self.shard.directory
        gone = shard.unneeded(len(self.first.subscribers))
        many = len(gone) > max(IDLE_MAX, len(directory.subscribers) // 2)
        if many or len(directory.names) > 2 * len(directory.groups) + IDLE_MAX:
            return shard.compacted(gone if many else gone[:0])
        return shard
