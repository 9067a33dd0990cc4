"""Schemas of records on their way."""

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
"""An input record on its way: ``topic`` is a number in the plan's `reads`, ``timestamp``
in ms."""

TIMESTAMP_TYPE = pa.field("timestampType", pa.int32())
"""Who set a record's timestamp, as Kafka's clients number it."""
NO_TIMESTAMP, CREATE_TIME, LOG_APPEND_TIME = -1, 0, 1

TYPED_RECORD = RECORD.append(TIMESTAMP_TYPE)
"""The same as RECORD, for those who want to know that."""

BLOCKS = {"value": [pa.field("block", pa.binary()), pa.field("size", pa.int32())]}
"""What a table with blocks has in place of a column; see `streaming.wire.blocks`."""


def with_blocks(schema: pa.Schema) -> pa.Schema:
    """The schema of the same rows with blocks."""
    return pa.schema([each for field in schema for each in BLOCKS.get(field.name, [field])])


def has_blocks(schema: pa.Schema) -> bool:
    """Whether it is one of rows with blocks."""
    return "block" in schema.names


def columns_in(schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """The columns of these names, where the schema has blocks those in place of the value."""
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
"""Kafka's record batches on their way to the sink (`streaming.wire.encoded`), one in a row. The
first row's ``stamps`` are the timestamps of all records (ms), encoded by `streaming.arrow.numbers`;
null where they have Kafka's own."""


def is_encoded(table: pa.Table) -> bool:
    """Whether a table has batches, not records."""
    return bool(table.schema.equals(ENCODED))


def is_compressed(table: pa.Table) -> bool:
    """Whether a table has batches that are compressed."""
    return is_encoded(table) and "none" not in table["compression"].to_pylist()
