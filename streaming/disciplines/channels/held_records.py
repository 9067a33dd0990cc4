"""The records that a shard holds, in segments: each is written once, not with every batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from sequencer.channels.state import Bools, Int64s
from sequencer.slices import slices, stretches
from streaming.arrow.columns import flat, row_bytes
from streaming.arrow.ipc import from_line, from_state, to_line, to_state
from streaming.arrow.pack import taken
from streaming.arrow.schemas import columns_in, has_blocks, with_blocks
from streaming.disciplines.channels.shard_files import ShardFiles
from streaming.wire.blocks import alike, blocked, plain_values, sizes_of_values, with_large

PIECE_BYTES = 2**21
"""The approximate size of a table that leaves a shard; a segment has twice that. Allocators reuse
the memory of tables of this size; for larger ones they take memory from the system each time."""
SEGMENT_BYTES = 2 * PIECE_BYTES
COPIED_BYTES_MAX = 256 * 2**20
"""The most bytes of arrivals that become one table; an array has room for 2 GiB."""
ROW_BYTES = 40
"""The bytes of a record besides its key, value and headers."""


@dataclass(frozen=True)
class Pool:
    """A step's records by number: first those held before, then arrivals.

    Record n is row ``at[n]`` of the tables, one behind the other; -1 if it stays in its segment.
    They are not one table: an array has at most 2 GiB, and to join them would copy them into
    memory, while those of segments that are files stay there until a row is taken.
    """

    tables: Sequence[pa.Table]
    at: Int64s

    @cached_property
    def sizes(self) -> Int64s:
        """Return the approximate bytes of each row of the tables, with or without blocks."""
        return np.concatenate([_sizes(table) for table in self.tables])

    def take(self, records: Int64s, names: Sequence[str] | None = None) -> pa.Table:
        """Return some of the records, in this order."""
        tables = self.tables
        if names is not None:
            tables = [each.select(columns_in(each.schema, names)) for each in tables]
        return taken(tables, self.at[records])

    def sizes_of(self, records: Int64s) -> Int64s:
        """Return the approximate bytes of some records. Numbers below 0 are notices: ROW_BYTES."""
        sizes = np.full(len(records), ROW_BYTES)
        own = records >= 0
        sizes[own] = self.sizes[self.at[records[own]]]
        return sizes

    def pieces(self, records: Int64s) -> Iterator[slice]:
        """Yield slices of some records, each ending when it has PIECE_BYTES.

        They depend on the records alone, as a repeated batch must give the same ones, though
        records may be packed differently then. And each depends on no later record: Kafka may
        refuse one of those, which the next run leaves out.
        """
        for first, stop in stretches(self.sizes_of(records), PIECE_BYTES):
            yield slice(first, stop)


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of records: compressed in a line of text, or uncompressed in the file of a ``name``.

    ``size``: their uncompressed bytes. Rows that are no longer held stay in it until it is written
    anew. ``blocks``: whether its rows have blocks (`streaming.wire.blocks`).
    """

    line: str
    rows: int
    size: int
    name: str = ""
    blocks: bool = False

    @classmethod
    def of(cls, table: pa.Table, files: ShardFiles | None, number: int) -> Segment:
        """Return a segment of a table's rows; ``number`` is that of its file, if it gets one."""
        (batch,) = table.combine_chunks().to_batches()
        rows, size, blocks = len(table), table.nbytes, has_blocks(table.schema)
        if files is not None and files.wants(size):
            return cls("", rows, size, files.put(batch.serialize(), number), blocks)
        return cls(to_line(to_state(batch)), rows, size, blocks=blocks)

    @property
    def rows_min(self) -> int:
        """Return the number of held rows below which the segment is written anew."""
        return -(-self.rows // (4 if self.name else 2))

    def table(self, schema: pa.Schema, files: ShardFiles | None) -> pa.Table:
        """Return the rows, those of a file without reading it; ``schema`` is without blocks."""
        schema = with_blocks(schema) if self.blocks else schema
        if self.name:
            assert files is not None  # noqa: S101  (the state's folder is the plan's)
            batch = pa.ipc.read_record_batch(files.get(self.name), schema)
        else:
            batch = from_state(from_line(self.line), schema)
        return pa.Table.from_batches([batch])


@dataclass(frozen=True, slots=True)
class HeldRecords:
    """Held records, in the order of `ShardState.held`: record n is row ``row[n]`` of a segment.

    The segment is ``segment[n]``; the oldest come first. ``files``: those of large segments; None:
    no segment becomes a file. ``gone``: names of files that are unused since the last step.
    ``made``: the number of the next one. ``times``: the records' own (ms), if they are needed.
    """

    schema: pa.Schema
    segments: Sequence[Segment]
    segment: Int64s
    row: Int64s
    files: ShardFiles | None = None
    gone: Sequence[str] = ()
    made: int = 0
    times: Int64s | None = None

    @classmethod
    def empty(cls, schema: pa.Schema, files: ShardFiles | None = None) -> HeldRecords:
        """Return an object without records."""
        none = np.zeros(0, np.int64)
        return cls(schema, (), none, none, files)

    @classmethod
    def of(cls, table: pa.Table, files: ShardFiles | None = None, made: int = 0) -> HeldRecords:
        """Return an object of all rows of a table; ``made`` is the number of the next file."""
        empty, rows = replace(cls.empty(table.schema, files), made=made), np.arange(len(table))
        return empty.after(rows, empty.outdated(rows), Pool(_unchunked(table), rows))

    def __len__(self) -> int:
        return len(self.row)

    @property
    def names(self) -> set[str]:
        """Return the names of the files that have held records."""
        return {each.name for each in self.segments if each.name}

    def table(self) -> pa.Table:
        """Return all held records, without blocks."""
        rows, pool = np.arange(len(self)), self._whole()
        pieces = (plain_values(pool.take(rows[piece])) for piece in pool.pieces(rows))
        return pa.concat_tables([self.schema.empty_table(), *pieces])

    def _whole(self) -> Pool:
        none = np.zeros(0, np.int64)
        return self.pool(np.ones(len(self), np.bool_), self.schema.empty_table(), none)

    def outdated(self, held: Int64s) -> Bools:
        """Return the segments to be written anew, given the records that are held after a step.

        These are segments of which half is gone (of a file, three quarters), and small ones that
        are not longer than the segment behind: so there are few, and each record is written a
        logarithmic number of times.
        """
        of = self.segment[held[held < len(self)]]
        new = len(held) - len(of)
        lives = np.bincount(of, minlength=len(self.segments)).tolist()
        outdated = np.zeros(len(self.segments), np.bool_)
        for at, segment in reversed([*enumerate(self.segments)]):
            small = lives[at] <= new and 2 * segment.size < SEGMENT_BYTES
            if small or lives[at] < segment.rows_min:
                outdated[at] = True
                new += lives[at]
        return outdated

    def among(self, records: Int64s) -> Bools:
        """Return which held records are among some records, by their numbers."""
        found = np.zeros(len(self), np.bool_)
        found[records[records < len(self)]] = True
        return found

    def pool(
        self, wanted: Bools, arrived: pa.Table, order: Int64s, *, blocks: bool = False
    ) -> Pool:
        """Return the wanted held records, and those that arrived, as rows of a table, in order.

        ``blocks``: large values are to have them. Held ones may have none, from a time when the
        service compressed otherwise, or because they were moved to another checkpoint.
        """
        at = np.full(len(self) + len(order), -1)
        tables, first = [], 0
        for segment in np.unique(self.segment[wanted]).tolist():
            found = np.flatnonzero(wanted & (self.segment == segment))
            rows, its = self.row[found], self.segments[segment]
            table = its.table(self.schema, self.files)
            lacks_blocks = blocks and not its.blocks and with_large(table)
            if lacks_blocks or not its.name:
                table, rows = table.take(pa.array(rows)), np.arange(len(rows))
            tables.append(blocked(table) if lacks_blocks else table)
            at[found] = first + rows
            first += len(table)
        at[len(self) :] = first + order
        return Pool(alike([*tables, *_unchunked(arrived)]), at)

    def after(
        self, held: Int64s, outdated: Bools, pool: Pool, *, timed: bool = False
    ) -> HeldRecords:
        """Return the records held after a step, by numbers in its pool; ``timed``: with times.

        Of these, the pool must have the arrivals and those in outdated segments.
        """
        old = held < len(self)
        stays = np.zeros(len(held), np.bool_)
        stays[old] = ~outdated[self.segment[held[old]]]
        lasting, again = np.unique(self.segment[held[stays]], return_inverse=True)
        segment, row = np.zeros((2, len(held)), np.int64)
        segment[stays], row[stays] = again, self.row[held[stays]]
        segments = [self.segments[at] for at in lasting.tolist()]
        made = self.made
        fresh = np.flatnonzero(~stays)
        for first, stop in slices(pool.sizes_of(held[fresh]), SEGMENT_BYTES):
            here = fresh[first:stop]
            segment[here], row[here] = len(segments), np.arange(len(here))
            segments.append(Segment.of(pool.take(held[here]), self.files, made))
            made += 1
        after = HeldRecords(self.schema, segments, segment, row, self.files, made=made)
        times = self._times_after(held, pool) if timed else None
        return replace(after, gone=sorted(self.names - after.names), times=times)

    def _times_after(self, held: Int64s, pool: Pool) -> Int64s:
        old = held < len(self)
        times = np.zeros(len(held), np.int64)
        if old.any():
            known = self.times
            if known is None:  # nobody wanted them before
                known = _times(self._whole(), np.arange(len(self)))
            times[old] = known[held[old]]
        times[~old] = _times(pool, held[~old])
        return times


def _sizes(table: pa.Table) -> Int64s:
    sizes = ROW_BYTES + sizes_of_values(table)
    for name in ("key", "headers"):
        sizes += row_bytes(flat(table[name]))
    return sizes


def _times(pool: Pool, records: Int64s) -> Int64s:
    times: Int64s = flat(pool.take(records, ["timestamp"])["timestamp"]).to_numpy()
    return times


def _unchunked(table: pa.Table) -> list[pa.Table]:
    """Return the rows as tables of one chunk, several if they are too large to be copied."""
    rows = table.combine_chunks() if table.nbytes <= COPIED_BYTES_MAX else table
    return [pa.Table.from_batches([each]) for each in rows.to_batches()] or [table]
