"""Records as the rows that Spark's SQL expressions are written over.

The columns have the names and types of Spark's own Kafka source, which users know. Two more are
carried unchanged: the topic's number, and the timestamp in ms, which may lie outside the range of
Spark's timestamps.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from streaming.arrow.columns import flat, plain

KAFKA_ROW = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int, headers array<struct<key: string, value: binary>>, "
    "_topic int, _timestamp bigint"
)
RECORD_COLUMNS = (
    "_topic as topic",
    "partition",
    "offset",
    "_timestamp as timestamp",
    "key",
    "value",
    "headers",
)
"""SQL expressions that make rows of RECORD from rows of KAFKA_ROW."""

MICROSECONDS = 1_000
TIMESTAMP_MS_MAX = (2**63 - 1) // MICROSECONDS


def kafka_rows(records: pa.Table, topics: Sequence[str]) -> pa.RecordBatch:
    """Return rows of KAFKA_ROW for records (TYPED_RECORD), whose topics are numbers in ``topics``.

    ``timestamp`` is null where the milliseconds do not fit into Spark's microseconds.
    """
    ms = flat(records["timestamp"]).to_numpy()
    outside = (ms > TIMESTAMP_MS_MAX) | (ms < -TIMESTAMP_MS_MAX)
    timestamps = pa.array(np.where(outside, 0, ms) * MICROSECONDS, mask=outside)
    numbers = flat(records["topic"])
    columns = {
        "key": flat(records["key"]),
        "value": plain(flat(records["value"])),
        "topic": pa.array(topics, pa.string()).take(numbers),
        "partition": flat(records["partition"]),
        "offset": flat(records["offset"]),
        "timestamp": timestamps.cast(pa.timestamp("us", "UTC")),
        "timestampType": flat(records["timestampType"]),
        "headers": flat(records["headers"]),
        "_topic": numbers,
        "_timestamp": flat(records["timestamp"]),
    }
    return pa.RecordBatch.from_pydict(columns)
