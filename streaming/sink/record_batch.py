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
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import google_crc32c
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streaming.arrow.columns import Int64s, flat
from streaming.sink.compression import COMPRESSIONS, compressed

BODY_BYTES_MAX = 1_000_000
"""Of a batch's records, uncompressed; a larger record stands alone. Topics take 1,048,588 bytes by
default."""

ENCODED_BYTES_MAX = 32 * 2**20
"""Of what is encoded at once, so that memory does not grow with what an operator hands over."""

TRANSACTIONAL = 0x10
HEAD = struct.Struct(">qiibI")  # base offset, length, leader's epoch, format, checksum
CHECKED = struct.Struct(">hiqqqhii")  # what the checksum covers, in front of the records

NO_BYTES = pa.scalar(b"", pa.binary())
SEQUENCES = 2**31
NUMBERS_BYTES_MAX = 21
"""Of a record's length, attributes and deltas."""

Piece: TypeAlias = Any
"""Bytes of each row (an array), or the same for all (a scalar)."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one partition, encoded; timestamps in ms. ``body`` is not compressed yet."""

    partition: int
    count: int
    first_ms: int
    latest_ms: int
    body: pa.Buffer

    def finished(
        self, compression: str, producer: tuple[int, int], sequence: int, *, transactional: bool
    ) -> bytes:
        """The batch as Kafka takes it; ``producer`` is an id and its epoch."""
        packed = compressed(self.body, compression)
        checked = CHECKED.pack(
            COMPRESSIONS.index(compression) | TRANSACTIONAL * transactional,
            self.count - 1,
            self.first_ms,
            self.latest_ms,
            *producer,
            sequence,
            self.count,
        )
        checksum = google_crc32c.extend(google_crc32c.value(checked), packed)
        length = HEAD.size - 12 + len(checked) + len(packed)
        return b"".join([HEAD.pack(0, length, -1, 2, checksum), checked, packed])


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
    columns = {name: flat(table[name]) for name in table.column_names}
    added = [(name, _binary(column)) for name, column in added]
    if "timestamp" in columns:
        times = columns["timestamp"].fill_null(now_ms).to_numpy()
    else:
        times = np.full(len(table), now_ms)
    record = [columns["key"], columns["value"], columns["headers"]]
    for rows in _slices([*record, *(column for _, column in added)]):
        size = rows.stop - rows.start
        own = [column.slice(rows.start, size) for column in record]
        more = [(name, column.slice(rows.start, size)) for name, column in added]
        yield from _cut(_contents(own, more), times[rows], partitions[rows])


def next_sequence(sequence: int, count: int) -> int:
    """The sequence number behind ``count`` records; Kafka's run to 2^31 - 1 and start again."""
    return (sequence + count) % SEQUENCES


def _cut(contents: pa.Array, times: Int64s, partitions: NDArray[np.int32]) -> Iterator[Batch]:
    """Rows in order of partition, numbered, cut into batches."""
    if (np.diff(partitions) < 0).any():
        narrow = np.min_scalar_type(int(partitions.max()))  # of 16 bits: sorted four times faster
        order = np.argsort(partitions.astype(narrow), kind="stable")
        contents, times, partitions = contents.take(order), times[order], partitions[order]
    lengths = _lengths(contents)
    first = np.array(_first_rows(lengths, partitions))
    counts = np.diff(first, append=len(times))
    offsets = np.arange(len(times)) - np.repeat(first, counts)
    deltas = times - np.repeat(times[first], counts)
    sizes = 1 + _varint_sizes(deltas) + _varint_sizes(offsets) + lengths
    attributes = np.zeros(len(times), np.int64)
    records = _joined(varints(sizes, attributes, deltas, offsets), contents)
    ends, data = _buffers(records)
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


def _contents(record: Sequence[pa.Array], added: Sequence[tuple[str, pa.Array]]) -> pa.Array:
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
            piece = _joined(pa.scalar(named, pa.binary()), *_sized(column))
            tail.append(pc.if_else(there, piece, NO_BYTES))
        else:
            counts = counts + 1
            tail += [pa.scalar(named, pa.binary()), *_sized(column)]
    return _joined(*_sized(keys), *_sized(values), _numbers(counts), own, *tail)


def _own_headers(headers: pa.Array) -> tuple[Int64s, Piece]:
    """How many headers each row has, and their bytes."""
    if pa.types.is_dictionary(headers.type):
        counts, own = _own_headers(headers.dictionary)
        own = pa.repeat(own, len(counts)) if isinstance(own, pa.Scalar) else own
        at = headers.indices
        if not at.null_count:
            return counts[at.to_numpy()], own.take(at)
        counts = np.where(at.is_valid(), counts[at.fill_null(0).to_numpy()], 0)
        return counts, own.take(at).fill_null(NO_BYTES)
    bounds = headers.offsets.to_numpy()
    pairs = headers.values.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
    if not len(pairs):
        return np.zeros(len(headers), np.int64), NO_BYTES
    names, values = _binary(pairs.field("key")), pairs.field("value")
    ends, data = _buffers(_joined(*_sized(names), *_sized(values)))
    ends = np.ascontiguousarray(ends[bounds - bounds[0]])
    own = pa.BinaryArray.from_buffers(
        pa.binary(), len(headers), [headers.is_valid().buffers()[1], pa.py_buffer(ends), data]
    )
    counts = np.diff(bounds).astype(np.int64)
    if headers.null_count:
        counts[headers.is_null().to_numpy(zero_copy_only=False)] = 0
        own = own.fill_null(NO_BYTES)
    return counts, own


def _sized(column: pa.Array) -> list[Piece]:
    """The column's bytes, each with its length before it; -1 is null."""
    if pa.types.is_dictionary(column.type):
        known = _joined(*_sized(column.dictionary))
        taken = known.take(column.indices)
        return [taken.fill_null(b"\x01") if taken.null_count else taken]
    lengths = pc.binary_length(column)
    lengths = lengths.fill_null(-1) if lengths.null_count else lengths
    return [_numbers(lengths.to_numpy()), column]


def _numbers(numbers: NDArray[np.integer]) -> Piece:
    """Varints of the numbers; one for all where they are equal."""
    if len(numbers) and (numbers == numbers[0]).all():
        return varints(numbers[:1])[0]
    return varints(numbers)


def varints(*columns: NDArray[np.integer]) -> pa.Array:
    """Each row's numbers as zigzag varints (KIP-98), one behind the other; at most 64 bits."""
    parts, masks = [], []
    for column in columns:
        wide = column.astype(np.int64)
        zigzag = (wide << 1 ^ wide >> 63).view(np.uint64)
        size = max(1, -(-int(zigzag.max(initial=0)).bit_length() // 7))
        shifted = zigzag[:, None] >> (np.arange(size, dtype=np.uint64) * np.uint64(7))[None, :]
        more = np.zeros(shifted.shape, np.uint8)
        more[:, :-1] = (shifted[:, 1:] != 0) * np.uint8(0x80)
        parts.append((shifted & np.uint64(0x7F)).astype(np.uint8) | more)
        mask = shifted != 0
        mask[:, 0] = True
        masks.append(mask)
    matrix, mask = np.concatenate(parts, axis=1), np.concatenate(masks, axis=1)
    ends = np.zeros(len(matrix) + 1, np.int32)
    np.cumsum(mask.sum(axis=1), out=ends[1:])
    data = pa.py_buffer(np.ascontiguousarray(matrix[mask]))
    return pa.BinaryArray.from_buffers(pa.binary(), len(matrix), [None, pa.py_buffer(ends), data])


def _varint_sizes(numbers: Int64s) -> Int64s:
    """How many bytes each number's varint has."""
    zigzag = (numbers << 1 ^ numbers >> 63).view(np.uint64)
    sizes = np.ones(len(numbers), np.int64)
    for bits in range(7, int(zigzag.max(initial=0)).bit_length(), 7):
        sizes += zigzag >> np.uint64(bits) != 0
    return sizes


def _joined(*pieces: Piece) -> pa.Array:
    """The pieces of each row, one behind the other; null is empty."""
    return pc.binary_join_element_wise(
        *pieces, NO_BYTES, null_handling="replace", null_replacement=b""
    )


def _binary(column: pa.Array) -> pa.Array:
    """Texts and numbers as bytes."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, _binary(column.dictionary))
    if pa.types.is_binary(column.type):
        return column
    return column.cast(pa.string()).cast(pa.binary())


def _buffers(column: pa.Array) -> tuple[NDArray[np.int32], pa.Buffer]:
    """Where each row ends (and the first begins), and the bytes."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return ends, data if data is not None else pa.py_buffer(b"")


def _lengths(column: pa.Array) -> Int64s:
    return np.diff(_buffers(column)[0]).astype(np.int64)


def _slices(columns: Sequence[pa.Array]) -> Iterator[slice]:
    """Runs of rows whose columns have few enough bytes to be encoded at once."""
    count = len(columns[0])
    if sum(_bytes_max(column) for column in columns) <= ENCODED_BYTES_MAX:
        yield slice(0, count)
        return
    ends = np.cumsum(sum(_row_bytes(column) for column in columns))
    row = 0
    while row < count:
        beyond = _first_beyond(ends, row, ENCODED_BYTES_MAX)
        yield slice(row, beyond)
        row = beyond


def _bytes_max(column: pa.Array) -> int:
    """No fewer bytes than the rows take."""
    if pa.types.is_dictionary(column.type):
        return len(column) * int(_row_bytes(column.dictionary).max(initial=0))
    return int(column.nbytes)


def _row_bytes(column: pa.Array) -> Int64s:
    """About how many bytes each row takes."""
    if pa.types.is_dictionary(column.type):
        known = np.append(_row_bytes(column.dictionary), 0)
        sizes: Int64s = known[column.indices.fill_null(len(column.dictionary)).to_numpy()]
        return sizes
    if pa.types.is_list(column.type):
        bounds = column.offsets.to_numpy().astype(np.int64)
        pairs = column.values.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
        sizes = _row_bytes(pairs.field("key")) + _row_bytes(pairs.field("value"))
        spans: Int64s = np.diff(np.append(0, np.cumsum(sizes))[bounds - bounds[0]])
        return spans
    return np.asarray(pc.binary_length(column).fill_null(0).to_numpy(), np.int64)
