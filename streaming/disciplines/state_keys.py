"""Which shard has a name, and which state key a shard has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streaming.arrow.partitioner import partition_of, partitions_of


def shard_keys(shards: int, partitions: int) -> list[int]:
    """For each shard a state key that Spark's hash partitioning sends to ``shard % partitions``.

    Spark spreads few keys unevenly; keys chosen by their hash give each state partition its share.
    """
    candidate = 0
    wanted: dict[int, list[int]] = {at: [] for at in range(partitions)}
    per_partition = -(-shards // partitions)
    while any(len(keys) < per_partition for keys in wanted.values()):
        keys = wanted[_spark_hash_int(candidate) % partitions]
        if len(keys) < per_partition:
            keys.append(candidate)
        candidate += 1
    return [wanted[shard % partitions][shard // partitions] for shard in range(shards)]


def by_partition(keys: Sequence[int], partitions: int) -> list[Sequence[int]]:
    """Return the state keys of `shard_keys` by state partition."""
    return [keys[at::partitions] for at in range(partitions)]


def _spark_hash_int(value: int, seed: int = 42) -> int:
    """Spark's Murmur3 (x86, 32 bit) hash of an int, signed: what HashPartitioning takes modulo."""
    mask = 0xFFFFFFFF

    def rotate(number: int, by: int) -> int:
        return (number << by | number >> (32 - by)) & mask

    k = rotate(value * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (rotate(seed ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h


def shards_of(names: pa.Array, shards: int) -> NDArray[np.int32]:
    """Return the shard of each channel, subscriber, peer or sender (binary; null is empty).

    A name has its shard for the life of a checkpoint. It is Kafka's partition of that
    key among this many: a shard writes to few partitions where one number divides the other.
    """
    return partitions_of(names.fill_null(b"") if names.null_count else names, shards)


def shard_of_name(name: bytes, shards: int) -> int:
    """Return the shard of one name; see `shards_of`."""
    return partition_of(name, shards)
