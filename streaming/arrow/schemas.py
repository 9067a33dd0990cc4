"""Schemas of records between stages."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

RECORD = pa.schema(
    [
        ("topic", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
"""An input record: ``topic`` is a number in the plan's `reads`, ``timestamp`` in ms."""

TIMESTAMP_TYPE = pa.field("timestampType", pa.int32())
"""Whether the producer or the broker set a record's timestamp, numbered as in Kafka's clients."""
NO_TIMESTAMP, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1

TYPED_RECORD = RECORD.append(TIMESTAMP_TYPE)
"""RECORD with the type of the timestamp."""

BLOCKS = {"value": [pa.field("block", pa.binary()), pa.field("size", pa.int32())]}
"""The columns that replace another in a table with blocks; see `streaming.wire.blocks`."""


def with_blocks(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the same rows with blocks."""
    return pa.schema([each for field in schema for each in BLOCKS.get(field.name, [field])])


def has_blocks(schema: pa.Schema) -> bool:
    """Return whether a schema is of rows with blocks."""
    return "block" in schema.names


def columns_in(schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """Return the columns of these names; with blocks, those that replace the value."""
    if not has_blocks(schema):
        return [*names]
    return [each for name in names for each in (("block", "size") if name == "value" else (name,))]


PAYLOAD = pa.schema(
    [("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)]
)
"""The input record; ``key`` is its sender, ``timestamp`` in ms."""

ENCODED = pa.schema(
    [
        ("partition", pa.int32()),
        ("count", pa.int32()),
        ("first_ms", pa.int64()),
        ("latest_ms", pa.int64()),
        ("body", pa.binary()),
        ("compression", pa.string()),
        ("stamps", pa.binary()),
    ]
)
"""Kafka's record batches for the sink (`streaming.wire.encoded`), one in a row. The first row's
``stamps`` are the timestamps of all records (ms), encoded by `streaming.arrow.numbers`; null if
Kafka sets them."""


def is_encoded(table: pa.Table) -> bool:
    """Return whether a table has batches, not records."""
    return bool(table.schema.equals(ENCODED))


def is_compressed(table: pa.Table) -> bool:
    """Return whether a table has compressed batches."""
    return is_encoded(table) and "none" not in table["compression"].to_pylist()
