"""Arrow helpers on columns of Kafka records: headers, keys, the partition of a key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def flat(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column as one array (no copy where it is one already)."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        merged = column.combine_chunks()
        return merged.chunk(0) if isinstance(merged, pa.ChunkedArray) else merged
    return column


def last_headers(
    headers: pa.Array, names: Sequence[str]
) -> list[tuple[pa.Array, NDArray[np.bool_]]]:
    """For each name, values of each row's last header of that name, and where there is one.

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
        found = np.full(rows, -1, dtype=np.int64)
        if len(at):
            row = _row_of_pair(headers, pairs, offsets) if row is None else row
            found[row[at]] = at  # of several, the last assignment stays: the last header counts
        present = found >= 0
        nulls = pa.nulls(rows, values.type)
        last.append((values.take(pa.array(found, mask=~present)) if len(at) else nulls, present))
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


def murmur2(keys: pa.Array) -> NDArray[np.int32]:
    """Kafka's murmur2 of each key (binary, no nulls), as in org.apache.kafka.common.utils.Utils."""
    count = len(keys)
    hashes = np.zeros(count, dtype=np.uint32)
    if not count:
        return hashes.view(np.int32)
    keys = keys.cast(pa.large_binary())
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[keys.offset : keys.offset + count + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    alike = int(lengths.min()) == int(lengths.max())
    for length in (lengths[:1] if alike else np.unique(lengths)).tolist():
        rows = np.flatnonzero(lengths == length)
        matrix = data[offsets[rows][:, None] + np.arange(length)]
        hashes[rows] = _murmur2_same_length(matrix.reshape(len(rows), length))
    return hashes.view(np.int32)


def _murmur2_same_length(matrix: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """murmur2 of the rows of a byte matrix."""
    m = np.uint32(0x5BD1E995)
    count, length = matrix.shape
    seed = np.uint32((0x9747B28C ^ length) & 0xFFFFFFFF)
    h: NDArray[np.uint32] = np.full(count, seed, dtype=np.uint32)
    words = np.ascontiguousarray(matrix[:, : length // 4 * 4]).view("<u4")
    for word in words.T:
        k = word * m
        k ^= k >> np.uint32(24)
        h = h * m ^ k * m
    tail = matrix[:, length // 4 * 4 :].astype(np.uint32)
    for at in reversed(range(tail.shape[1])):
        h ^= tail[:, at] << np.uint32(8 * at)
    if tail.shape[1]:
        h = h * m
    h ^= h >> np.uint32(13)
    h = h * m
    return h ^ h >> np.uint32(15)


def partitions_of(keys: pa.Array, count: int) -> NDArray[np.int32]:
    """The partition of each key among ``count``, as Kafka's Java client chooses it."""
    return ((murmur2(keys) & np.int32(0x7FFFFFFF)) % np.int32(count)).astype(np.int32)
