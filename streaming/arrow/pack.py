"""Ingress: rows of the Kafka source in packs, one Arrow body for each shard.

Spark shuffles and sorts a few large rows instead of every message, and payloads never become
Python objects on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

PACKED = "shard int, rows binary"
PACK_BYTES_MAX = 8 * 2**20
"""A pack's rows are cut when they reach this size. Larger tables cost more for a byte: allocators
take memory for them from the system and give it back each time, page by page."""


def source_columns(reads: Sequence[str]) -> list[str]:
    """SQL for what every record brings: where it was, its time, key, value and headers.

    A topic travels as its number in ``reads``.
    """
    topic = " ".join(f"when '{name}' then {at}" for at, name in enumerate(reads))
    return [
        f"cast(case topic {topic} end as int) as topic",
        "partition",
        "offset",
        "unix_millis(timestamp) as timestamp",
        "key",
        "value",
        "headers",
    ]


def in_packs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """A task's rows in tables that are large, but no larger than need be."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if len(batch):
            waiting.append(batch)
        size += batch.nbytes
        if size >= PACK_BYTES_MAX:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def packed(shards: NDArray[Any], packs: list[bytes], keys: list[int]) -> pa.RecordBatch:
    """Rows of PACKED: the packs of some shards under their state keys."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([keys[shard] for shard in shards.tolist()], pa.int32()),
            pa.array(packs, pa.binary()),
        ],
        names=["shard", "rows"],
    )
