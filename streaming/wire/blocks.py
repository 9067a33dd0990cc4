"""Large values, compressed one by one: once, when they are read.

An LZ4 frame is a sequence of blocks, and Kafka's clients read frames of independent blocks. So a
value that was compressed when it was read is copied unchanged into the record batch that is
written; held values, and those that go through Spark, are as small.

A table with blocks has two columns in place of `value`: `block`, the value's blocks, each behind
its size, as in a frame, and `size`, the value's own (null where the value is null). A value that is
not large is a stored (not compressed) block. A value's blocks depend on the value alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streaming.arrow.columns import Int64s, flat, null_rows, plain, row_bytes
from streaming.arrow.pieces import ends_and_bytes, joined, of_lengths
from streaming.arrow.schemas import has_blocks
from streaming.wire.compression import BLOCK_BYTES_MAX, lz4_blocks, of_lz4_blocks, stored_heads

LARGE_BYTES_MIN = 4096
"""The least size of values that are compressed alone: smaller ones compress better together."""


def with_large(rows: pa.Table) -> bool:
    """Return whether one of the values is large."""
    values = flat(rows["value"])
    return int(row_bytes(values).max(initial=0)) >= LARGE_BYTES_MIN


def blocked(rows: pa.Table, large_min: int = LARGE_BYTES_MIN) -> pa.Table:
    """Return the table with blocks; values of at least ``large_min`` bytes are compressed.

    The column `value` may be a dictionary; entries without a row are not read.
    """
    values = flat(rows["value"])
    sizes = row_bytes(values)
    large = sizes >= large_min
    found = _compressed(values, np.flatnonzero(large), sizes)
    small = np.where(large, 0, sizes)
    if small.any():
        others = plain(values.take(pa.array(np.arange(len(values)), mask=large)))
        found = joined(stored_heads(small), others, found)
    size = pa.array(sizes.astype(np.int32), mask=null_rows(values))
    at = rows.schema.get_field_index("value")
    return rows.set_column(at, "block", found).add_column(at + 1, "size", size)


def plain_values(rows: pa.Table) -> pa.Table:
    """Return the inverse of :func:`blocked`; a table without blocks stays unchanged."""
    if not has_blocks(rows.schema):
        return rows
    blocks, sizes = flat(rows["block"]), flat(rows["size"]).to_pylist()
    values = [
        None if size is None else of_lz4_blocks(block, size)
        for block, size in zip(_buffers(blocks), sizes, strict=True)
    ]
    at = rows.schema.get_field_index("block")
    rows = rows.set_column(at, "value", pa.array(values, pa.binary()))
    return rows.remove_column(at + 1)


def alike(tables: Sequence[pa.Table]) -> Sequence[pa.Table]:
    """Return tables that all have blocks if one has; the others' values are stored."""
    if not any(has_blocks(each.schema) for each in tables):
        return tables
    return [
        each if has_blocks(each.schema) else blocked(each, BLOCK_BYTES_MAX + 1) for each in tables
    ]


def mostly_large(rows: pa.Table) -> bool:
    """Return whether large values are at least half of the bytes of a table with blocks.

    If not, values compress better together.
    """
    sizes = flat(rows["size"]).fill_null(0).to_numpy()
    large = sizes[sizes >= LARGE_BYTES_MIN]
    return bool(len(large) and 2 * large.sum() >= sizes.sum())


def sizes_of_values(rows: pa.Table) -> Int64s:
    """Return each value's approximate bytes: those of its blocks if it has some."""
    if not has_blocks(rows.schema):
        return row_bytes(flat(rows["value"]))
    sizes = flat(rows["size"]).fill_null(0).to_numpy().astype(np.int64)
    return np.where(sizes < LARGE_BYTES_MIN, sizes, row_bytes(flat(rows["block"])))


def _compressed(values: pa.Array, rows: Int64s, sizes: Int64s) -> pa.Array:
    """Return the blocks of some of the values, empty for the others."""
    at = rows
    if pa.types.is_dictionary(values.type):
        at, values = values.indices.take(pa.array(rows)).to_numpy(), values.dictionary
    ends, data = ends_and_bytes(values)
    parts: list[bytes | pa.Buffer] = []
    lengths = np.zeros(len(sizes), np.int64)
    for row, begin, size in zip(
        rows.tolist(), ends[at].tolist(), sizes[rows].tolist(), strict=True
    ):
        compressed = lz4_blocks(data.slice(begin, size))
        lengths[row] = sum(map(len, compressed))
        parts += compressed
    return of_lengths(lengths, pa.py_buffer(b"".join(parts)))


def _buffers(column: pa.Array) -> list[pa.Buffer]:
    ends, data = ends_and_bytes(column)
    return [
        data.slice(begin, stop - begin)
        for begin, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    ]
