"""A shard's tables as earlier formats had them: Arrow bodies, each number in 8 bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.channels import Held, ShardState
from sequencer.channels.state import COLUMNS, Skipped
from streaming.arrow.ipc import from_state

CHANNELS = pa.schema([("key", pa.binary()), *((name, pa.int64()) for name in COLUMNS)])
SKIPPED = pa.schema([(name, pa.int64()) for name in ("channel", "first", "stop")])
HELD = pa.schema(
    [
        *((name, pa.int64()) for name in ("_channel", "_position", "_since_ms")),
        ("_fin", pa.bool_()),
    ]
)
"""What a held record has besides."""
PLACES = pa.schema([*HELD, ("segment", pa.int32()), ("row", pa.int32())])

ROWS_HELD = 2
"""The format that has, in place of segments, one table of the held records with HELD."""
NO_FILES, WITH_FILES = 3, 4
"""In the first of these formats segments are told as a list of their rows and sizes."""
IN_SEGMENTS = (NO_FILES, WITH_FILES)


def with_rows(
    blobs: Sequence[bytes], clock_ms: int, schema: pa.Schema
) -> tuple[ShardState, pa.Table]:
    """The channels and their held records (``schema``) of ROWS_HELD."""
    held, table = Held.empty(), schema.empty_table()
    if blobs[2]:
        found = from_state(blobs[2], pa.schema([*schema, *HELD])).columns
        held = Held(*map(_numbers, found[len(schema) :]))
        table = pa.Table.from_arrays(found[: len(schema)], schema=schema)
    return _state(blobs, held, clock_ms), table


def with_places(blobs: Sequence[bytes], clock_ms: int) -> tuple[ShardState, dict[str, Any]]:
    """The channels of IN_SEGMENTS, and where each held record is."""
    held, segment, row = Held.empty(), *np.zeros((2, 0), np.int64)
    if blobs[2]:
        *waiting, segment, row = map(_numbers, from_state(blobs[2], PLACES).columns)
        held = Held(*waiting)
    places = {"segment": segment.astype(np.int64), "row": row.astype(np.int64)}
    return _state(blobs, held, clock_ms), places


def _state(blobs: Sequence[bytes], held: Held, clock_ms: int) -> ShardState:
    keys, *numbers = from_state(blobs[0], CHANNELS).columns
    named = dict(zip(COLUMNS, map(_numbers, numbers), strict=True))
    skipped = Skipped.empty()
    if blobs[1]:
        skipped = Skipped(*map(_numbers, from_state(blobs[1], SKIPPED).columns))
    return ShardState(keys, **named, held=held, skipped=skipped, clock_ms=clock_ms)


def _numbers(column: pa.Array) -> np.ndarray[Any, Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False))
