"""Splitting of finished record batches that Kafka refuses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from streaming.wire.compression import COMPRESSIONS
from streaming.wire.decompression import decompressed
from streaming.wire.record_batch import CHECKED, HEAD, RecordBatch, batches
from streaming.wire.record_columns import NO_OWN_MS, Body, columns

COMPRESSION = 0x07


def unfinished(data: bytes, partition: int) -> tuple[RecordBatch, int]:
    """Return the batch of these bytes (the inverse of `finished`), and its sequence number."""
    attributes, last, first_ms, latest_ms, _, _, sequence, _ = CHECKED.unpack_from(data, HEAD.size)
    body = pa.py_buffer(data).slice(HEAD.size + CHECKED.size)
    compression = COMPRESSIONS[attributes & COMPRESSION]
    return RecordBatch(partition, last + 1, first_ms, latest_ms, body, compression), sequence


def records_in(batch: RecordBatch) -> pa.Table:
    """Return the batch's records as rows of `schemas.RECORD`, their offsets counted from 0."""
    data = batch.body.to_pybytes()
    if batch.compression != "none":
        data = decompressed(memoryview(data), batch.compression)
    at = (batch.count, 0, batch.partition, 0, batch.first_ms, NO_OWN_MS, 0, batch.count)
    return columns([Body(data, 0, len(data))], [at])


def taken(batch: RecordBatch, records: pa.Table, rows: Iterable[int]) -> Iterator[RecordBatch]:
    """Encode some of a batch's records again; as several batches if they are too large for one."""
    part = records.take(pa.array(rows, pa.int64()))
    partitions = np.full(len(part), batch.partition, np.int32)
    for smaller in batches(part, partitions, (), batch.first_ms):
        yield smaller.compressed(batch.compression)


def halves(batch: RecordBatch) -> list[RecordBatch]:
    """Split a batch of several records in two, in their order."""
    records = records_in(batch)
    middle = batch.count // 2
    spans = (range(middle), range(middle, batch.count))
    return [smaller for rows in spans for smaller in taken(batch, records, rows)]
