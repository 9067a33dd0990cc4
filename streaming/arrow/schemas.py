"""Schemas of records on their way."""

from __future__ import annotations

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

PAYLOAD = pa.schema(
    [("timestamp", pa.int64()), ("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS)]
)
"""The input record; ``key`` is its sender, ``timestamp`` in ms."""
