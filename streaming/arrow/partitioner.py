"""The partition of a key, as Kafka's Java client chooses it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def murmur2(keys: pa.Array) -> NDArray[np.int32]:
    """Return murmur2 of each key (binary, no nulls), as org.apache.kafka.common.utils.Utils."""
    hashes = np.zeros(len(keys), dtype=np.uint32)
    for rows, matrix in by_length(keys):
        hashes[rows] = _murmur2_same_length(matrix)
    return hashes.view(np.int32)


def by_length(
    keys: pa.Array,
) -> Iterator[tuple[NDArray[np.intp] | slice, NDArray[np.uint8]]]:
    """Yield the keys (binary, no nulls) by length: their rows, and a byte matrix of them."""
    count = len(keys)
    if not count:
        return
    keys = keys.cast(pa.large_binary())
    _, offset_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64)[keys.offset : keys.offset + count + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer else np.zeros(0, np.uint8)
    lengths = np.diff(offsets)
    if (lengths == lengths[0]).all():
        yield slice(None), data[offsets[0] : offsets[-1]].reshape(count, int(lengths[0]))
        return
    for length in np.unique(lengths).tolist():
        rows = np.flatnonzero(lengths == length)
        matrix = data[offsets[rows][:, None] + np.arange(length)]
        yield rows, matrix.reshape(len(rows), length)


def _murmur2_same_length(matrix: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Return murmur2 of each row of a byte matrix."""
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
    """Return the partition of each key among ``count``, as Kafka's Java client chooses it."""
    return ((murmur2(keys) & np.int32(0x7FFFFFFF)) % np.int32(count)).astype(np.int32)


def partition_of(key: bytes, count: int) -> int:
    """Return the partition of one key; a hundred times as fast as for an array of one."""
    mask, m, length = 0xFFFFFFFF, 0x5BD1E995, len(key)
    h = (0x9747B28C ^ length) & mask
    whole = length // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        k ^= k >> 24
        h = (h * m & mask) ^ (k * m & mask)
    if whole < length:
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return ((h ^ h >> 15) & 0x7FFFFFFF) % count
