"""Kafka record batches (format 2, KIP-98) encoded by Arrow's and numpy's kernels, not row by row.

A batch; numbers are big-endian, and what stands behind the checksum is covered by it:

    base offset           int64     the first record's; brokers set it
    length                int32     bytes behind this field
    leader epoch          int32     of the partition's leader; brokers set it
    format                int8      2
    checksum              uint32    CRC-32C
    attributes            int16     bits 0 to 2: compression (0 none, 1 gzip, 2 snappy,
                                    3 lz4, 4 zstd); 3: timestamps are the broker's;
                                    4: transactional; 5: a marker
    last offset delta     int32     of the last record
    base timestamp        int64     ms, the first record's
    max timestamp         int64     ms
    producer id           int64     -1: none
    producer epoch        int16
    base sequence         int32     the first record's sequence number of its producer
    count                 int32     of records
    records                         compressed together

A record; numbers are zigzag varints:

    length                          bytes behind this field
    attributes            int8      0
    timestamp delta                 to the batch's base timestamp
    offset delta                    to its base offset
    key, value                      each a length (-1: null) and its bytes
    headers                         their number; each a name and a value, as key and value are

What does not depend on a record's offset (key, value, headers) is encoded for all rows at once.
Then rows are sorted by partition, cut into batches, and each row gets its deltas. The data buffer
of the result is the batches' bodies, one behind the other; for rows with blocks
(`streaming.wire.blocks`), the content of their frames.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import google_crc32c
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.sorting import order_by
from streaming.arrow.columns import Int64s, flat, plain, row_bytes
from streaming.arrow.pieces import (
    ends_and_bytes,
    varint_sizes,
    varints,
)
from streaming.arrow.schemas import columns_in, has_blocks
from streaming.wire.blocks import plain_values
from streaming.wire.compression import (
    BLOCK_BYTES_MAX,
    COMPRESSIONS,
    compressed,
    lz4_frame,
)
from streaming.wire.contents import Contents, Shared, as_binary, contents

BODY_BYTES_MAX = 1_000_000
"""The most bytes of a batch's records, uncompressed; a larger record has a batch of its own. Topics
accept 1,048,588 bytes by default."""

ENCODED_BYTES_MAX = 32 * 2**20
"""The most bytes encoded at once, so that memory does not grow with an operator's output."""

TRANSACTIONAL = 0x10
HEAD = struct.Struct(">qiibI")  # base offset, length, leader's epoch, format, checksum
CHECKED = struct.Struct(">hiqqqhii")  # what the checksum covers, in front of the records

SEQUENCES = 2**31
NUMBERS_BYTES_MAX = 21
"""The most bytes of a record's length, attributes and deltas."""
FRAMED_BYTES_MAX = 16
"""The most bytes that a record adds to its size in an lz4 frame if no block shrinks."""
PIECE_MAX = BLOCK_BYTES_MAX // 2
"""The most bytes of a key, or of headers, in a block."""


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records of one partition, encoded; timestamps in ms."""

    partition: int
    count: int
    first_ms: int
    latest_ms: int
    body: pa.Buffer
    compression: str = "none"

    @property
    def size(self) -> int:
        """Return the size of the finished batch in bytes."""
        return HEAD.size + CHECKED.size + len(self.body)

    def compressed(self, compression: str) -> RecordBatch:
        """Return the batch with a compressed body; one of blocks is compressed already (lz4)."""
        if self.compression == compression:
            return self
        return replace(self, body=compressed(self.body, compression), compression=compression)

    def finished(self, producer: tuple[int, int], sequence: int, *, transactional: bool) -> bytes:
        """Return the batch's bytes for Kafka; ``producer`` is an id and its epoch."""
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
) -> Iterator[RecordBatch]:
    """Encode the rows as batches: each partition's in the table's order.

    ``table`` has the columns `key`, `value`, `headers` and perhaps `timestamp` (ms, else
    ``now_ms``). ``added``: names and columns (binary, text or integer) of headers that follow the
    rows' own where not null. Columns may be dictionaries. Batches of a table with blocks (see
    `streaming.wire.blocks`) are compressed with lz4.
    """
    if not len(table):
        return
    if has_blocks(table.schema) and max(_most(table["key"]), _most(table["headers"])) > PIECE_MAX:
        table = plain_values(table)
    times = np.full(len(table), now_ms)
    if "timestamp" in table.column_names:
        times = plain(flat(table["timestamp"])).fill_null(now_ms).to_numpy()
    columns = [flat(table[name]) for name in columns_in(table.schema, ("key", "value", "headers"))]
    of_row = len(columns)
    columns += [as_binary(column) for _, column in added]
    names = [name for name, _ in added]
    ready = [
        Shared.of(column) if pa.types.is_dictionary(column.type) else column for column in columns
    ]
    for rows in _slices(columns):
        slices = [column.slice(rows.start, rows.stop - rows.start) for column in ready]
        chunk = contents(slices[:of_row], list(zip(names, slices[of_row:], strict=True)))
        yield from _cut(chunk, times[rows], partitions[rows])


def rows_within(table: pa.Table, rows_max: int, bytes_max: int) -> tuple[int, int]:
    """Return how many of a table's first rows fit (at least one), and their approximate bytes.

    Rows that share their bytes (dictionaries) each count in full.
    """
    columns = [flat(column) for column in table.slice(0, max(rows_max, 1)).columns]
    size = sum(_bytes_max(column) for column in columns)
    if size <= bytes_max:
        return len(columns[0]), size
    ends = np.cumsum(sum(row_bytes(column) for column in columns))
    rows = _first_beyond(ends, 0, bytes_max)
    return rows, int(ends[rows - 1])


def records_in(data: bytes) -> int:
    """Return the number of records that a finished batch's head states."""
    return int.from_bytes(data[HEAD.size + CHECKED.size - 4 :][:4], "big")


def next_sequence(sequence: int, count: int) -> int:
    """Return the sequence number after ``count`` more records; 0 follows 2^31 - 1."""
    return (sequence + count) % SEQUENCES


def _cut(chunk: Contents, times: Int64s, partitions: NDArray[np.int32]) -> Iterator[RecordBatch]:
    """Cut rows in order of partition into batches, and add their deltas."""
    if (np.diff(partitions) < 0).any():
        order = order_by(partitions)
        chunk, times, partitions = chunk.take(order), times[order], partitions[order]
    lengths = chunk.lengths
    framed = FRAMED_BYTES_MAX * (chunk.block is not None)
    first = np.array(_first_rows(lengths + NUMBERS_BYTES_MAX + framed, partitions))
    counts = np.diff(first, append=len(times))
    offsets = np.arange(len(times)) - np.repeat(first, counts)
    deltas = times - np.repeat(times[first], counts)
    sizes = 1 + varint_sizes(deltas) + varint_sizes(offsets) + lengths
    attributes = np.zeros(len(times), np.int64)
    records = chunk.numbered(varints(sizes, attributes, deltas, offsets))
    ends, data = ends_and_bytes(records)
    latest = np.maximum.reduceat(times, first)
    whole = np.add.reduceat(sizes + NUMBERS_BYTES_MAX, first).tolist()
    for at, (row, count) in enumerate(zip(first.tolist(), counts.tolist(), strict=True)):
        begin, end = int(ends[row]), int(ends[row + count])
        body, compression = data.slice(begin, end - begin), "none"
        if chunk.block is not None:
            body, compression = pa.py_buffer(lz4_frame([body], whole[at])), "lz4"
        head = (int(partitions[row]), count, int(times[row]), int(latest[at]))
        yield RecordBatch(*head, body, compression)


def _first_rows(sizes: Int64s, partitions: NDArray[np.int32]) -> list[int]:
    """Return the first row of each batch: a new partition's, or where the last one is full."""
    ends = np.cumsum(sizes)
    bounds = [0, *(np.flatnonzero(np.diff(partitions)) + 1).tolist(), len(sizes)]
    first = []
    for begin, end in pairwise(bounds):
        row = begin
        while row < end:
            first.append(row)
            row = _first_beyond(ends, row, BODY_BYTES_MAX)
    return first


def _first_beyond(ends: Int64s, row: int, limit: int) -> int:
    """Return the first row behind ``row`` that ends more than ``limit`` bytes after its begin."""
    before = int(ends[row - 1]) if row else 0
    return max(int(np.searchsorted(ends, before + limit, side="right")), row + 1)


def _slices(columns: Sequence[pa.Array]) -> Iterator[slice]:
    """Yield runs of rows whose columns have few enough bytes to be encoded at once."""
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


def _most(column: pa.ChunkedArray) -> int:
    return int(row_bytes(flat(column)).max())


def _bytes_max(column: pa.Array) -> int:
    """Return an upper bound of the bytes that the rows take."""
    if pa.types.is_dictionary(column.type):
        return len(column) * int(row_bytes(column.dictionary).max(initial=0))
    return int(column.nbytes)
