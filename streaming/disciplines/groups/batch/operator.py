"""Discipline `group` in the order of the batch: every shard counts all numbers by itself.

The protocol is `sequencer.groups`; here are the records that it is about, commands and answers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.groups.directory import Directory
from sequencer.groups.shard import Shard, Slice
from sequencer.groups.subscribers import Subscribers
from sequencer.ragged import Ints
from streaming.arrow import output
from streaming.arrow.columns import flat
from streaming.disciplines.broadcast import (
    BroadcastCore,
    BroadcastOperator,
    BroadcastWork,
    homes,
    record_homes,
)
from streaming.disciplines.groups.batch import codec
from streaming.disciplines.groups.commands import Changed, GroupCommand, carry_out
from streaming.disciplines.groups.plan import BatchPlan
from streaming.disciplines.groups.records import (
    REASONS,
    Published,
    by_topic,
    count_records,
    published,
    rejects,
    retired,
)
from streaming.disciplines.refused import Name

IDLE_MAX = 1_000
"""Subscribers and groups that are no more, of which so many stay in the tables at any rate."""


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
        self, plan: BatchPlan, number: int, known: tuple[bytes, Shard] | None = None
    ) -> None:
        super().__init__()
        self.plan = plan
        self.number = number
        self.first = codec.decode_first(plan.membership)
        self.changed = False
        self.known = known

    @property
    def shard(self) -> Shard:
        """The groups and what is counted of them."""
        return self._known()[1]

    def _known(self) -> tuple[bytes, Shard]:
        """The first membership where nothing else is known."""
        if self.known is None:
            directory = Directory.begin(self.first, self.plan.retire_after_ms)
            self.known = (b"", self._shard(directory))
        return self.known

    def step(self, work: BroadcastWork) -> Iterator[output.Write]:
        """Commands first, then the messages in their order."""
        events = self._commands(work)
        sent = published(work.records)
        group = self._groups(sent, work.now_ms)
        rows = work.records.take(pa.array(sent.good)).combine_chunks()
        for part in self.shard.take(group, work.now_ms):
            deliveries = self._deliveries(part, rows)
            self.totals.delivered += len(deliveries)
            yield from by_topic(deliveries, self.plan)
        events += self._retire(work.now_ms)
        here = np.flatnonzero(record_homes(work.records, self.plan.shards) == self.number)
        count_records(self.totals, sent.why[here])
        self.totals.channels = int(self.shard.subscribers.born.sum())
        records = work.records.take(pa.array(here))
        yield self.plan.rejects, rejects(records, sent.why[here], self.plan.inputs)
        yield self.plan.events, output.events(events)

    def unspend(self, counts: Mapping[bytes, int]) -> None:
        """Take back so many of the last sequence numbers of these subscribers."""
        places = {name: at for at, name in enumerate(self.shard.directory.subscribers)}
        for key, count in counts.items():
            self.shard.subscribers.sequence[places[key.decode()]] -= count

    def origin(self, work: BroadcastWork, name: Name) -> int:
        """Return the record that is this message of its group; commands come before all records."""
        (group, _, own), _ = self.plan.message_of(name)
        directory, records = self.shard.directory, self._sent_to(work, str(group))
        number = directory.number(str(group))
        after = int(directory.count[number] - directory.start[number])
        return int(records[int(own or 0) - (after - len(records))])

    def destinations(self, work: BroadcastWork, record: int) -> Collection[str]:
        """Return the members of a record's group."""
        sent = published(work.records)
        directory = self.shard.directory
        members = directory.groups[sent.names[int(sent.group[record])]].members
        return {directory.subscribers[subscriber] for subscriber in members.tolist()}

    def _sent_to(self, work: BroadcastWork, group: str) -> Ints:
        """The records of the batch that are messages of a group."""
        sent = published(work.records)
        here = sent.group[sent.good] == sent.names.index(group)
        return np.asarray(sent.good[here])

    def dump(self) -> bytes:
        """The state; the directory is encoded anew only where it changed."""
        if self.changed:
            shard = self._tidy()
            self.known = (codec.encode_directory(shard.directory, self.first), shard)
            self.changed = False
        data, shard = self._known()
        return codec.encode(data, shard.directory, shard.subscribers)

    def load(self, state: bytes) -> None:
        """Become what ``state`` was dumped from."""
        data, counts, subscribers = codec.parts(state)
        if self.known is None or self.known[0] != data:
            self.known = None
            if data:
                directory = codec.decode_directory(data, self.first, self.plan.retire_after_ms)
                self.known = (data, self._shard(directory))
        codec.load_counts(self.shard.directory, counts)
        codec.load_subscribers(self.shard.subscribers, subscribers)

    def _shard(self, directory: Directory) -> Shard:
        mine = self._mine(directory.subscribers)
        return Shard(directory, Subscribers.fresh(mine), self._mine, self.plan.stamps)

    def _mine(self, names: Sequence[str]) -> NDArray[np.bool_]:
        keys = pa.array([name.encode() for name in names], pa.binary())
        return np.asarray(homes(keys, self.plan.shards) == self.number)

    def _commands(self, work: BroadcastWork) -> list[output.Event]:
        """Carry out the commands, as every shard does; the first one tells of it."""
        events = carry_out(
            work.commands, self.plan, work.now_ms, partial(self._change, now_ms=work.now_ms)
        )
        return events if self.number == 0 else []

    def _change(self, command: GroupCommand, now_ms: int) -> Changed:
        group = self.shard.change(command.op, command.group, command.members, now_ms)
        self.changed = True
        gone = command.op == "remove"
        return Changed(None if gone else int(self.shard.directory.version[group.number]))

    def _groups(self, sent: Published, now_ms: int) -> Ints:
        """The groups of the messages that have one; the others get their reason."""
        numbers = np.array([self.shard.directory.number(name) for name in sent.names], np.int64)
        good = sent.good
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
        numbers = {"sequence": part.sequence, "incarnation": part.incarnation}
        return pa.table(columns | {name: pa.array(values) for name, values in numbers.items()})

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

    def _tidy(self) -> Shard:
        """The shard without what nobody needs, once that is most of what there is."""
        shard, directory = self.shard, self.shard.directory
        gone = shard.unneeded(len(self.first.subscribers))
        many = len(gone) > max(IDLE_MAX, len(directory.subscribers) // 2)
        if many or len(directory.names) > 2 * len(directory.groups) + IDLE_MAX:
            return shard.compacted(gone if many else gone[:0])
        return shard
