"""Kafka record batches (format 2, KIP-98) encoded by Arrow's and numpy's kernels, not row by row.

A record is `length, attributes, timestamp delta, offset delta, key, value, headers`; its numbers
are zigzag varints, keys and values have their length before them (-1: null). What does not depend
on a record's place (key, value, headers) is encoded for all rows at once; then rows are put in
order of partition, cut into batches, and each row gets its numbers. The data buffer of the result
is the batches' bodies, one behind the other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeAlias

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streaming.arrow.columns import Int64s, flat, plain, row_bytes
from streaming.arrow.compression import COMPRESSIONS, compressed
from streaming.arrow.partitioner import by_partition
from streaming.arrow.pieces import (
    NO_BYTES,
    Piece,
    ends_and_bytes,
    joined,
    lengths_of,
    varint_sizes,
    varints,
)

BODY_BYTES_MAX = 1_000_000
"""Of a batch's records, uncompressed; a larger record stands alone. Topics take 1,048,588 bytes by
default."""

ENCODED_BYTES_MAX = 32 * 2**20
"""Of what is encoded at once, so that memory does not grow with what an operator hands over."""

TRANSACTIONAL = 0x10
HEAD = struct.Struct(">qiibI")  # base offset, length, leader's epoch, format, checksum
CHECKED = struct.Struct(">hiqqqhii")  # what the checksum covers, in front of the records

MINUS_ONE = b"\x01"
SEQUENCES = 2**31
NUMBERS_BYTES_MAX = 21
"""Of a record's length, attributes and deltas."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one partition, encoded; timestamps in ms."""

    partition: int
    count: int
    first_ms: int
    latest_ms: int
    body: pa.Buffer
    compression: str = "none"

    def compressed(self, compression: str) -> Batch:
        """The same with its body compressed."""
        return replace(self, body=compressed(self.body, compression), compression=compression)

    def finished(self, producer: tuple[int, int], sequence: int, *, transactional: bool) -> bytes:
        """The batch as Kafka takes it; ``producer`` is an id and its epoch."""
        checked = CHECKED.pack(
            COMPRESSIONS.index(self.compression) | TRANSACTIONAL * transactional,
            self.count - 1,
            self.first_ms,
            self.latest_ms,
            *producer,
            sequence,
            self.count,
        )
        checksum = google_crc32c.extend(google_crc32c.value(checked), self.body)
        length = HEAD.size - 12 + len(checked) + len(self.body)
        return b"".join([HEAD.pack(0, length, -1, 2, checksum), checked, self.body])


def batches(
    table: pa.Table,
    partitions: NDArray[np.int32],
    added: Sequence[tuple[str, pa.Array]],
    now_ms: int,
) -> Iterator[Batch]:
    """The rows as batches: each partition's in the table's order.

    ``table`` has the columns `key`, `value`, `headers` and perhaps `timestamp` (ms, else
    ``now_ms``); ``added`` are names and columns (binary, text or integer) of headers behind the
    rows' own, where they are not null. Columns may be dictionaries.
    """
    if not len(table):
        return
    times = np.full(len(table), now_ms)
    if "timestamp" in table.column_names:
        times = plain(flat(table["timestamp"])).fill_null(now_ms).to_numpy()
    columns = [flat(table[name]) for name in ("key", "value", "headers")]
    columns += [_binary(column) for _, column in added]
    names = [name for name, _ in added]
    ready = [
        Shared.of(column) if pa.types.is_dictionary(column.type) else column for column in columns
    ]
    for rows in _slices(columns):
        here = [column.slice(rows.start, rows.stop - rows.start) for column in ready]
        contents = _contents(here[:3], list(zip(names, here[3:], strict=True)))
        yield from _cut(contents, times[rows], partitions[rows])


def next_sequence(sequence: int, count: int) -> int:
    """The sequence number behind ``count`` records; Kafka's run to 2^31 - 1 and start again."""
    return (sequence + count) % SEQUENCES


@dataclass(frozen=True, slots=True)
class Shared:
    """A dictionary column, what it shares encoded once; ``counts`` are its headers, of those."""

    indices: pa.Array
    known: pa.Array
    counts: Int64s = field(default_factory=lambda: np.zeros(0, np.int64))

    @staticmethod
    def of(column: pa.Array) -> Shared:
        """Of bytes, with their lengths before them, or of headers."""
        known = column.dictionary
        indices = column.indices
        if known.null_count:  # null by its value is null by its index
            indices = pc.if_else(known.is_valid().take(indices), indices, None)
        if not pa.types.is_list(known.type):
            return Shared(indices, joined(*_sized(known)))
        counts, own = _own_headers(known)
        own = pa.repeat(own, len(counts)) if isinstance(own, pa.Scalar) else own
        return Shared(indices, own, counts)

    @property
    def null_count(self) -> int:
        """How many rows are null."""
        return int(self.indices.null_count)

    def is_valid(self) -> pa.Array:
        """Which rows are not null."""
        return self.indices.is_valid()

    def slice(self, first: int, count: int) -> Shared:
        """Some of the rows."""
        return Shared(self.indices.slice(first, count), self.known, self.counts)

    def bytes(self, null: bytes) -> pa.Array:
        """Each row's bytes, ``null`` where it is null."""
        taken = self.known.take(self.indices)
        return taken.fill_null(null) if taken.null_count else taken


Column: TypeAlias = Any
"""An Arrow array, or a Shared."""


def _cut(contents: pa.Array, times: Int64s, partitions: NDArray[np.int32]) -> Iterator[Batch]:
    """Rows in order of partition, numbered, cut into batches."""
    if (np.diff(partitions) < 0).any():
        order = by_partition(partitions)
        contents, times, partitions = contents.take(order), times[order], partitions[order]
    lengths = lengths_of(contents)
    first = np.array(_first_rows(lengths, partitions))
    counts = np.diff(first, append=len(times))
    offsets = np.arange(len(times)) - np.repeat(first, counts)
    deltas = times - np.repeat(times[first], counts)
    sizes = 1 + varint_sizes(deltas) + varint_sizes(offsets) + lengths
    attributes = np.zeros(len(times), np.int64)
    records = joined(varints(sizes, attributes, deltas, offsets), contents)
    ends, data = ends_and_bytes(records)
    latest = np.maximum.reduceat(times, first)
    for at, (row, count) in enumerate(zip(first.tolist(), counts.tolist(), strict=True)):
        begin, end = int(ends[row]), int(ends[row + count])
        body = data.slice(begin, end - begin)
        yield Batch(int(partitions[row]), count, int(times[row]), int(latest[at]), body)


def _first_rows(lengths: Int64s, partitions: NDArray[np.int32]) -> list[int]:
    """The first row of each batch: a new partition's, or where the last one is full."""
    ends = np.cumsum(lengths + NUMBERS_BYTES_MAX)
    bounds = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(lengths)]
    first = []
    for begin, end in pairwise(bounds):
        row = begin
        while row < end:
            first.append(row)
            row = _first_beyond(ends, row, BODY_BYTES_MAX)
    return first


def _first_beyond(ends: Int64s, row: int, limit: int) -> int:
    """The first row behind ``row`` that is not within ``limit`` of where that begins."""
    before = int(ends[row - 1]) if row else 0
    return max(int(np.searchsorted(ends, before + limit, side="right")), row + 1)


def _contents(record: Sequence[Column], added: Sequence[tuple[str, Column]]) -> pa.Array:
    """Of each row what does not depend on its place: key, value, number of headers, headers."""
    keys, values, headers = record
    counts, own = _own_headers(headers)
    tail: list[Piece] = []
    for name, column in added:
        named = name.encode()
        named = varints(np.array([len(named)]))[0].as_py() + named
        if column.null_count:
            there = column.is_valid()
            counts = counts + there.to_numpy(zero_copy_only=False)
            piece = joined(pa.scalar(named, pa.binary()), *_sized(column))
            tail.append(pc.if_else(there, piece, NO_BYTES))
        else:
            counts = counts + 1
            tail += [pa.scalar(named, pa.binary()), *_sized(column)]
    return joined(*_sized(keys), *_sized(values), _numbers(counts), own, *tail)


def _own_headers(headers: pa.Array | Shared) -> tuple[Int64s, Piece]:
    """How many headers each row has, and their bytes."""
    if isinstance(headers, Shared):
        known = np.append(headers.counts, 0)  # the last is for null
        at = headers.indices.fill_null(len(known) - 1)
        return known[at.to_numpy()], headers.bytes(b"")
    bounds = headers.offsets.to_numpy()
    pairs = headers.values.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
    if not len(pairs):
        return np.zeros(len(headers), np.int64), NO_BYTES
    names, values = _binary(pairs.field("key")), pairs.field("value")
    ends, data = ends_and_bytes(joined(*_sized(names), *_sized(values)))
    ends = np.ascontiguousarray(ends[bounds - bounds[0]])
    buffers = [None, pa.py_buffer(ends), data]
    own = pa.BinaryArray.from_buffers(pa.binary(), len(headers), buffers)
    counts = np.diff(bounds).astype(np.int64)
    if headers.null_count:  # a null may own bytes
        counts[headers.is_null().to_numpy(zero_copy_only=False)] = 0
        own = pc.if_else(headers.is_valid(), own, NO_BYTES)
    return counts, own


def _sized(column: pa.Array | Shared) -> list[Piece]:
    """The column's bytes, each with its length before it; -1 is null."""
    if isinstance(column, Shared):
        return [column.bytes(MINUS_ONE)]
    lengths = pc.binary_length(column)
    lengths = lengths.fill_null(-1) if lengths.null_count else lengths
    return [_numbers(lengths.to_numpy()), column]


def _numbers(numbers: NDArray[np.integer]) -> Piece:
    """Varints of the numbers; one for all where they are equal."""
    if len(numbers) and (numbers == numbers[0]).all():
        return varints(numbers[:1])[0]
    return varints(numbers)


def _binary(column: pa.Array) -> pa.Array:
    """Texts and numbers as bytes."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _binary(column.dictionary))
    if pa.types.is_binary(column.type):
        return column
    return column.cast(pa.string()).cast(pa.binary())


def _slices(columns: Sequence[pa.Array]) -> Iterator[slice]:
    """Runs of rows whose columns have few enough bytes to be encoded at once."""
    count = len(columns[0])
    if sum(_bytes_max(column) for column in columns) <= ENCODED_BYTES_MAX:
        yield slice(0, count)
        return
    ends = np.cumsum(sum(row_bytes(column) for column in columns))
    row = 0
    while row < count:
        beyond = _first_beyond(ends, row, ENCODED_BYTES_MAX)
        yield slice(row, beyond)
        row = beyond


def _bytes_max(column: pa.Array) -> int:
    """No fewer bytes than the rows take."""
    if pa.types.is_dictionary(column.type):
        return len(column) * int(row_bytes(column.dictionary).max(initial=0))
    return int(column.nbytes)
