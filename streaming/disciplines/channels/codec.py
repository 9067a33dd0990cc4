"""State of a shard as bytes: compressed Arrow bodies with a format version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.channels import Held, ShardState
from sequencer.channels.state import COLUMNS, Skipped
from streaming.arrow.columns import flat
from streaming.arrow.ipc import from_state, to_state
from streaming.arrow.totals import Totals
from streaming.errors import StateFormatError

STATE_FORMAT = 2
STATE = "format int, clock_ms long, channels binary, skipped binary, held binary, totals string"

CHANNELS = pa.schema([("key", pa.binary()), *((name, pa.int64()) for name in COLUMNS)])
SKIPPED = pa.schema([(name, pa.int64()) for name in ("channel", "first", "stop")])
HELD = [pa.field(name, pa.int64()) for name in ("_channel", "_position", "_since_ms")]
HELD += [pa.field("_fin", pa.bool_())]
"""What a held record has besides."""

Row = tuple[int, int, bytes, bytes, bytes, str]


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard's whole state: the channels, the held records (rows of RECORD), the counts."""

    state: ShardState
    records: pa.Table
    totals: Totals


def encode_shard(shard: Shard) -> Row:
    """The shard as a row of STATE."""
    state, ranges, waiting = shard.state, shard.state.skipped, shard.state.held
    numbers = map(pa.array, state.columns().values())
    channels = pa.RecordBatch.from_arrays([state.keys, *numbers], schema=CHANNELS)
    skipped, held = b"", b""
    if len(ranges):
        numbers = map(pa.array, (ranges.channel, ranges.first, ranges.stop))
        skipped = to_state(pa.RecordBatch.from_arrays(list(numbers), schema=SKIPPED))
    if len(waiting):
        records = [flat(column) for column in shard.records.columns]
        numbers = map(pa.array, (waiting.channel, waiting.position, waiting.since_ms, waiting.fin))
        schema = pa.schema([*shard.records.schema, *HELD])
        held = to_state(pa.RecordBatch.from_arrays([*records, *numbers], schema=schema))
    totals = shard.totals.without_news().to_json()
    return STATE_FORMAT, state.clock_ms, to_state(channels), skipped, held, totals


def decode_shard(row: Row | None, schema: pa.Schema) -> Shard:
    """The shard in a row of STATE, or an empty one; ``schema`` is that of its records."""
    if row is None:
        return Shard(ShardState.empty(), schema.empty_table(), Totals())
    if row[0] != STATE_FORMAT:
        raise StateFormatError(row[0], STATE_FORMAT)
    _, clock_ms, channels_blob, skipped_blob, held_blob, totals = row
    keys, *numbers = from_state(channels_blob, CHANNELS).columns
    skipped, held, records = Skipped.empty(), Held.empty(), schema.empty_table()
    if skipped_blob:
        skipped = Skipped(*map(_numbers, from_state(skipped_blob, SKIPPED).columns))
    if held_blob:
        waiting = from_state(held_blob, pa.schema([*schema, *HELD])).columns
        records = pa.Table.from_arrays(waiting[: len(schema)], schema=schema)
        held = Held(*map(_numbers, waiting[len(schema) :]))
    columns = dict(zip(COLUMNS, map(_numbers, numbers), strict=True))
    state = ShardState(keys, **columns, held=held, skipped=skipped, clock_ms=clock_ms)
    return Shard(state, records, Totals.from_json(totals))


def _numbers(column: pa.Array) -> np.ndarray[Any, Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False))
