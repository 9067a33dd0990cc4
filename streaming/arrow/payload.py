"""Payloads of messages between shards, and their division into chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streaming.arrow.columns import flat
from streaming.arrow.schemas import RECORD

CHUNK_BYTES_MAX = 512 * 1024
"""A chunk is cut at this size, so that it fits into a Kafka record by any broker's settings; a
larger single message goes alone."""

ROW_BYTES = 64
HEADER_BYTES = 16


def carried(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return these columns of records; null if another plan sent the records without them."""
    columns = {
        name: rows[name]
        if name in rows.column_names
        else pa.nulls(len(rows), RECORD.field(name).type)
        for name in names
    }
    return pa.table(columns)


def own(rows: pa.Table) -> pa.Table:
    """Return only the records' columns of a chunk."""
    return rows.select([name for name in RECORD.names if name in rows.column_names])


def row_sizes(rows: pa.Table) -> NDArray[np.int64]:
    """Return the approximate bytes of each record."""
    sizes = np.full(len(rows), ROW_BYTES, np.int64)
    if not len(rows):
        return sizes
    for name in ("key", "value"):
        sizes += _lengths(flat(rows[name]))
    headers = flat(rows["headers"])
    pairs = flat(headers.flatten())
    lengths = _lengths(pairs.field("key")) + _lengths(pairs.field("value")) + HEADER_BYTES
    counts = pc.list_value_length(headers).fill_null(0).to_numpy(zero_copy_only=False)
    ends = np.concatenate(([0], np.cumsum(lengths)))[np.concatenate(([0], np.cumsum(counts)))]
    return sizes + np.diff(ends).astype(np.int64)


def fits(chunk: bytes) -> bool:
    """Return whether a chunk need not be cut."""
    return len(chunk) <= CHUNK_BYTES_MAX


def cuts(sizes: Iterable[int]) -> list[tuple[int, int]]:
    """Divide items of these sizes into half-open ranges, each small enough for a chunk."""
    stretches: list[tuple[int, int]] = []
    first, stop, room = 0, -1, CHUNK_BYTES_MAX
    for stop, size in enumerate(sizes):
        if size > room and stop > first:
            stretches.append((first, stop))
            first, room = stop, CHUNK_BYTES_MAX
        room -= size
    return [*stretches, (first, stop + 1)]


def _lengths(column: pa.Array) -> NDArray[np.int64]:
    lengths = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return np.asarray(lengths, dtype=np.int64)
