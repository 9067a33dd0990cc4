"""Operators whose shards all see every record: groups and multicast in the order of the batch.

The offset log has fixed which records a batch has, and order of arrival (topic, partition, offset)
is one order that every shard knows. So each shard gets all of them, works out by itself what
concerns its keys, and none asks another. This module is what such disciplines share: who gets what,
in which order, output slice by slice.

What only one shard may do (count a record, reject it, answer a command) falls to its `home`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.slices import slices
from streaming.arrow.columns import flat, row_bytes
from streaming.arrow.ipc import body_pieces
from streaming.arrow.output import OUTPUT, Write, output_row, output_rows_of
from streaming.arrow.pack import order_of_arrival, packed, taken, unpacked
from streaming.arrow.schemas import RECORD
from streaming.arrow.times import newest_read
from streaming.disciplines.plan import Plan
from streaming.disciplines.refused import Name
from streaming.disciplines.shards import Core, ShardOperator, state_keys
from streaming.disciplines.source import Source
from streaming.disciplines.state_row import STATE
from streaming.disciplines.undelivered import Dropping

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


WORK_BYTES_MAX = 16 * 2**20
"""The most bytes of records that a shard takes at once: an array of Arrow has room for 2 GiB, and
lists of destinations take 42 times as much memory while they are read (names of five bytes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastPlan(Plan):
    """A pipeline whose shards all see every record."""

    sees_all: ClassVar[bool] = True
    commands: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The inputs, then the commands."""
        return (*self.inputs, self.commands)


@dataclass(frozen=True, slots=True)
class BroadcastWork:
    """A batch, or a stretch of it, the same for every shard: commands before the records.

    Both have the columns of RECORD, each as one chunk, in order of arrival. ``now_ms`` never falls.
    """

    records: pa.Table
    commands: pa.Table
    now_ms: int

    def row_of(self, place: Mapping[str, Any], plan: BroadcastPlan) -> int:
        """Return the record at a place (topic, partition, offset).

        Below 0: a command of the commands topic, counted from their end.
        """
        wanted = (plan.reads.index(place["topic"]), place["partition"], place["offset"])
        for table, shift in ((self.records, 0), (self.commands, len(self.commands))):
            columns = [flat(table[name]).to_numpy() for name in ("topic", "partition", "offset")]
            same = [column == each for column, each in zip(columns, wanted, strict=True)]
            for row in np.flatnonzero(np.all(same, axis=0)).tolist():
                return int(row - shift)
        raise ValueError(f"nothing of the batch is at {place}")


class BroadcastCore(Core):
    """One shard that gets every record, and works out what concerns its keys."""

    @abstractmethod
    def step(self, work: BroadcastWork) -> Iterable[Write]:
        """Take a batch: what to write, in order, in tables of bounded size (`sequencer.slices`).

        The state is complete when all of them have been taken.
        """

    @abstractmethod
    def unspend(self, counts: Mapping[bytes, int]) -> None:
        """Take back this many of the last sequence numbers of these keys."""

    @abstractmethod
    def origin(self, work: BroadcastWork, name: Name) -> int:
        """Return the record that a delivery of the batch is of; see `undelivered.Counting`."""

    def is_notice(self, work: BroadcastWork, name: Name) -> bool:
        """Return whether a delivery is not of a message, but reports a command."""
        return self.origin(work, name) < 0

    @abstractmethod
    def destinations(self, work: BroadcastWork, record: int) -> Collection[str]:
        """Return who had to get a record of the batch."""


class BroadcastOperator(ShardOperator[BroadcastPlan, BroadcastCore]):
    """The function that Spark calls for each shard."""

    def rows(self, key: int, core: BroadcastCore, packs: Sequence[bytes]) -> Iterator[pd.DataFrame]:
        """See `ShardOperator.rows`."""
        wrote_before, wrote = core.totals.batches > 0, False
        tables = unpacked(packs)
        core.totals.read = sum(map(len, tables))
        core.totals.oldest_ms = {} if self.plan.progress else None
        for work in works(tables, len(self.plan.inputs), core.clock_ms):
            for topic, table in self._without_refused(core, work):
                for rows in output_rows_of(key, (topic, table), wrote_before=wrote_before):
                    wrote = True
                    yield rows
            if self.plan.progress:
                before = core.totals.read_ms
                core.totals.read_ms = newest_read(before, work.records, self.plan.inputs)
        core.totals.batches += wrote
        yield output_row(key, totals=core.totals.to_json(), wrote_before=wrote_before)

    def _without_refused(self, core: BroadcastCore, work: BroadcastWork) -> Iterator[Write]:
        """What a shard writes, but for what Kafka refused in earlier runs of the batch."""
        dropping = Dropping(self.refused, self.plan, core)
        kept = ((topic, dropping.kept(topic, table)) for topic, table in core.step(work))
        for topic, table in chain(kept, dropping.close(work)):
            is_rejects = topic == self.plan.rejects
            yield topic, self.refused.stripped(table, work.now_ms) if is_rejects else table


def broadcast(source: Source, plan: BroadcastPlan, operator: type[BroadcastOperator]) -> DataFrame:
    """The query between Kafka and the sink: rows of OUTPUT."""
    keys = state_keys(plan)
    making = partial(pack_for_all, keys=keys)
    packed = source.packs(plan.reads, plan.reads, making, plan.state_partitions, keys=keys)
    return packed.frame.groupBy("shard").applyInPandasWithState(
        operator(plan, packed.read), OUTPUT, STATE, "append", "NoTimeout"
    )


def pack_for_all(table: pa.Table, keys: list[int], *, large_rows: str = "") -> pa.RecordBatch:
    """Rows of PACKED: all rows of a table (RECORD) for every shard, under its state key.

    ``large_rows``: see `pack_by_shard`.
    """
    if not len(table):  # a stretch of which compaction has left nothing
        return packed(np.arange(0), [], keys)
    (rows,) = table.cast(RECORD).combine_chunks().to_batches()
    body = body_pieces(rows, as_it_is=bool(large_rows))
    return packed(np.arange(len(keys)), [body] * len(keys), keys, large_rows)


def works(tables: Sequence[pa.Table], inputs: int, now_ms: int) -> Iterator[BroadcastWork]:
    """Yield the work in a batch's tables (`unpacked`); ``inputs``: how many topics have records.

    If it has more than WORK_BYTES_MAX, it is cut into stretches, as into batches of one time: the
    commands first. Where they end depends on the records alone, so it is the same for all shards.
    """
    batch = pa.concat_tables(tables)
    order = order_of_arrival(batch)
    count = int(np.searchsorted(flat(batch["topic"]).to_numpy()[order], inputs))
    sizes = np.concatenate([_sizes(table) for table in tables])[order]
    if sizes.sum() <= WORK_BYTES_MAX:
        table = taken(tables, order)
        yield BroadcastWork(table.slice(0, count), table.slice(count), now_ms)
        return
    none = RECORD.empty_table()
    for first, stop in slices(sizes[count:], WORK_BYTES_MAX):
        yield BroadcastWork(none, taken(tables, order[count:][first:stop]), now_ms)
    for first, stop in slices(sizes[:count], WORK_BYTES_MAX):
        yield BroadcastWork(taken(tables, order[first:stop]), none, now_ms)


def _sizes(table: pa.Table) -> NDArray[np.int64]:
    key, value, headers = (row_bytes(flat(table[name])) for name in ("key", "value", "headers"))
    return key + value + headers


def record_homes(records: pa.Table, shards: int) -> NDArray[np.int64]:
    """The shard of each record (RECORD), by where it was read: no shard counts it but this."""
    partition, offset = (flat(records[name]).to_numpy() for name in ("partition", "offset"))
    return np.asarray((partition + offset) % shards)
