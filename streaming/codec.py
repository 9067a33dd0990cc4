"""State and output of a shard as bytes: Arrow IPC streams with a format version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.channels import Held, ShardState
from sequencer.channels.state import COLUMNS, Skipped
from streaming.columns import HEADERS, flat
from streaming.errors import StateFormatError
from streaming.ipc import from_ipc, to_ipc
from streaming.totals import Totals

STATE_FORMAT = 1
STATE = "format int, channels binary, skipped binary, held binary, totals string"

RECORD = pa.schema(
    [
        ("topic", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("channel", pa.binary()),
    ]
)
"""An input record while it is on its way: ``topic`` is a place in the plan's inputs, ``timestamp``
in ms. ``channel`` is there only where it is not the key."""

HELD_COLUMNS = ("_channel", "_position", "_since_ms", "_fin")


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard's whole state: the channels, the held records (rows of RECORD), the counts."""

    state: ShardState
    records: pa.Table
    totals: Totals


def encode_shard(shard: Shard) -> tuple[int, bytes, bytes, bytes, str]:
    """The shard as a row of STATE."""
    state = shard.state
    numbers = {name: pa.array(column) for name, column in state.columns().items()}
    channels = pa.table({"key": state.keys, **numbers})
    channels = channels.replace_schema_metadata({"clock_ms": str(state.clock_ms)})
    skipped, held = b"", b""
    if len(state.skipped):
        ranges = state.skipped
        columns = {"channel": ranges.channel, "first": ranges.first, "stop": ranges.stop}
        skipped = to_ipc(pa.table({name: pa.array(each) for name, each in columns.items()}))
    if len(state.held):
        waiting = (state.held.channel, state.held.position, state.held.since_ms, state.held.fin)
        records = shard.records
        for name, column in zip(HELD_COLUMNS, waiting, strict=True):
            records = records.append_column(name, pa.array(column))
        held = to_ipc(records)
    return STATE_FORMAT, to_ipc(channels), skipped, held, shard.totals.to_json()


def decode_shard(row: tuple[int, bytes, bytes, bytes, str] | None, schema: pa.Schema) -> Shard:
    """The shard in a row of STATE, or an empty one; ``schema`` is that of its records."""
    if row is None:
        return Shard(ShardState.empty(), schema.empty_table(), Totals())
    form, channels_blob, skipped_blob, held_blob, totals = row
    if form != STATE_FORMAT:
        raise StateFormatError(form, STATE_FORMAT)
    channels = from_ipc(bytes(channels_blob))
    skipped, held, records = Skipped.empty(), Held.empty(), schema.empty_table()
    if skipped_blob:
        ranges = from_ipc(bytes(skipped_blob))
        skipped = Skipped(*(_numbers(ranges[name]) for name in ("channel", "first", "stop")))
    if held_blob:
        records = from_ipc(bytes(held_blob))
        waiting = [_numbers(records[name]) for name in HELD_COLUMNS]
        held = Held(*waiting)
        records = records.drop_columns(list(HELD_COLUMNS))
    state = ShardState(
        keys=flat(channels["key"]),
        held=held,
        skipped=skipped,
        clock_ms=int((channels.schema.metadata or {})[b"clock_ms"]),
        **{name: _numbers(channels[name]) for name in COLUMNS},
    )
    return Shard(state, records, Totals.from_json(totals))


def _numbers(column: pa.ChunkedArray) -> np.ndarray[Any, Any]:
    return np.asarray(flat(column).to_numpy(zero_copy_only=False))
