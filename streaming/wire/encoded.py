"""Operators' output as record batches: encoded and compressed, but without sequence numbers yet.

So records are compressed once, and Spark carries compressed bytes. A table of records (see
`streaming.arrow.output`) becomes a table of batches; the sink recognises it by its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streaming.arrow.columns import flat, plain
from streaming.arrow.numbers import from_bytes, to_bytes
from streaming.arrow.partitioner import partitions_of
from streaming.arrow.pieces import of_lengths
from streaming.arrow.schemas import ENCODED, has_blocks
from streaming.wire.blocks import mostly_large, plain_values
from streaming.wire.record_batch import RecordBatch, batches

RECORD_COLUMNS = ("key", "value", "block", "size", "headers", "timestamp", "partition")
HEADER = "header:"

NUMBERS = [name for name in ENCODED.names if name not in ("body", "stamps")]


def encoded(
    records: pa.Table, count: int, header: Callable[[str], str], compression: str, now_ms: int
) -> pa.Table:
    """Encode the records as a table of ENCODED.

    ``count``: the topic's partitions. ``header`` returns the full name of an added header.
    ``now_ms``: the time of records without one. With lz4, blocks of large values stay unchanged.
    """
    if has_blocks(records.schema) and not (compression == "lz4" and mostly_large(records)):
        records = plain_values(records)
    stamps = []
    if "timestamp" in records.column_names:
        stamps = [to_bytes([plain(flat(records["timestamp"])).to_numpy()])]
    finished = [
        each.compressed(compression)
        for each in batches(
            records, partitions_in(records, lambda: count), headers_in(records, header), now_ms
        )
    ]
    columns: dict[str, Any] = {name: [getattr(each, name) for each in finished] for name in NUMBERS}
    bodies = [each.body for each in finished]
    # Not of memoryviews: pyarrow 26 never releases the bytes of a memoryview in an array.
    lengths = np.array([each.size for each in bodies], np.int64)
    columns["body"] = of_lengths(lengths, pa.py_buffer(b"".join(bodies)))
    columns["stamps"] = [*stamps, *[None] * (len(finished) - len(stamps))]
    return pa.Table.from_pydict(columns, schema=ENCODED)


def batches_of(table: pa.Table) -> Iterator[RecordBatch]:
    """Yield the batches in a table of ENCODED."""
    bodies = flat(table["body"])
    for at, row in enumerate(table.select(NUMBERS).to_pylist()):
        yield RecordBatch(body=bodies[at].as_buffer(), **row)


def stamps_of(table: pa.Table) -> NDArray[np.int64]:
    """Return the timestamps (ms) of the records in a table of ENCODED; empty if Kafka sets them."""
    found = [
        from_bytes(stamps.as_buffer(), 1)[0][0] for stamps in table["stamps"] if stamps.is_valid
    ]
    return np.concatenate([np.zeros(0, np.int64), *found])


def partitions_in(records: pa.Table, count: Callable[[], int]) -> NDArray[np.int32]:
    """Return each record's partition: its own, or that of its key among ``count``.

    A record without a key goes where an empty key would.
    """
    if "partition" in records.column_names:
        return np.asarray(plain(flat(records["partition"])).to_numpy(), np.int32)
    return _by_key(flat(records["key"]), count())


def headers_in(records: pa.Table, header: Callable[[str], str]) -> list[tuple[str, pa.Array]]:
    """Return the columns that are headers to add, with their full names."""
    return [
        (header(name.removeprefix(HEADER)), flat(records[name]))
        for name in records.column_names
        if name not in RECORD_COLUMNS
    ]


def _by_key(keys: pa.Array, count: int) -> NDArray[np.int32]:
    if pa.types.is_dictionary(keys.type) and not keys.null_count:
        known = _by_key(keys.dictionary, count)
        return np.asarray(known[keys.indices.to_numpy()])
    return partitions_of(plain(keys).fill_null(b""), count)
