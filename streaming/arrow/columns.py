"""Operations on columns of Kafka records: flatten, decode, measure, find headers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]


def flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return the column as one array, without a copy if it is one already."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        merged = column.combine_chunks()
        return merged.chunk(0) if isinstance(merged, pa.ChunkedArray) else merged
    return column


def plain(column: pa.Array) -> pa.Array:
    """Return the column without a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def null_rows(column: pa.Array) -> NDArray[np.bool_]:
    """Return which rows are null: Arrow 18 does not say so of those by a dictionary's value."""
    if not pa.types.is_dictionary(column.type):
        return np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    by_value = np.append(null_rows(column.dictionary), True)
    rows: NDArray[np.bool_] = by_value[column.indices.fill_null(len(column.dictionary)).to_numpy()]
    return rows


def row_bytes(column: pa.Array) -> Int64s:
    """Return the approximate bytes of each row."""
    if pa.types.is_dictionary(column.type):
        known = np.append(row_bytes(column.dictionary), 0)
        sizes: Int64s = known[column.indices.fill_null(len(column.dictionary)).to_numpy()]
        return sizes
    if pa.types.is_integer(column.type):
        return np.full(len(column), column.type.bit_width // 8)
    if pa.types.is_list(column.type):
        bounds = column.offsets.to_numpy().astype(np.int64)
        pairs = column.values.slice(int(bounds[0]), int(bounds[-1] - bounds[0]))
        sizes = row_bytes(pairs.field("key")) + row_bytes(pairs.field("value"))
        spans: Int64s = np.diff(np.append(0, np.cumsum(sizes))[bounds - bounds[0]])
        return spans
    return np.asarray(pc.binary_length(column).fill_null(0).to_numpy(), np.int64)


def last_headers(
    headers: pa.Array, names: Sequence[str]
) -> list[tuple[pa.Array, NDArray[np.bool_]]]:
    """For each name, return the value of each row's last such header, and whether it has one.

    ``headers`` is a list<struct<key, value>> array whose rows may be null. The values are binary,
    null where the header is missing or null.
    """
    rows = len(headers)
    offsets = headers.offsets.to_numpy()
    first, stop = (int(offsets[0]), int(offsets[-1])) if rows else (0, 0)
    pairs = headers.values.slice(first, stop - first)
    keys, values = pairs.field("key"), pairs.field("value")
    row = None
    last = []
    for name in names:
        at = np.flatnonzero(pc.equal(keys, name).to_numpy(zero_copy_only=False))
        last_at = np.full(rows, -1, dtype=np.int64)
        if len(at):
            row = _row_of_pair(headers, pairs, offsets) if row is None else row
            last_at[row[at]] = at  # of several, the last assignment stays: the last header counts
        present = last_at >= 0
        nulls = pa.nulls(rows, values.type)
        last.append((values.take(pa.array(last_at, mask=~present)) if len(at) else nulls, present))
    return last


def _row_of_pair(headers: pa.Array, pairs: pa.Array, offsets: NDArray[np.int32]) -> Int64s:
    lengths = np.diff(offsets)
    if pairs.null_count or headers.null_count:
        lengths = np.where(headers.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    row = np.repeat(np.arange(len(headers)), lengths)
    if len(row) == len(pairs):
        return row
    # Null rows that own bytes: rare, take the exact way.
    at = np.searchsorted(offsets, offsets[0] + np.arange(len(pairs)), side="right")
    return np.asarray(at - 1)
