"""State of a shard as text: compressed Arrow bodies with a format version."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.channels import Held, ShardState
from sequencer.channels.state import COLUMNS, Skipped
from streaming.arrow.ipc import from_line, from_state, to_line, to_state
from streaming.arrow.totals import Totals
from streaming.disciplines.channels.held_records import HeldRecords, Segment
from streaming.disciplines.channels.segment_files import SegmentFiles
from streaming.errors import StateFormatError

STATE_FORMAT = 4
STATE = "format int, clock_ms long, channels binary, skipped binary, held binary, totals string"
"""All of it is in ``totals``, line by line: the totals, channels, skipped ranges, where each held
record is, what segments there are (JSON), and those that are no files (see `to_line`). Spark keeps
to the columns that a checkpoint began with; up to the format ROWS_HELD the blobs had theirs."""

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
NO_FILES = 3
"""The format whose segments are told as a list of their rows and sizes."""

Row = tuple[int, int, bytes, bytes, bytes, str]


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard's whole state: the channels, the held records (rows of RECORD), the counts."""

    state: ShardState
    records: HeldRecords
    totals: Totals


def encode_shard(shard: Shard) -> Row:
    """The shard as a row of STATE."""
    state, ranges, waiting = shard.state, shard.state.skipped, shard.state.held
    numbers = map(pa.array, state.columns().values())
    channels = pa.RecordBatch.from_arrays([state.keys, *numbers], schema=CHANNELS)
    skipped, places, segments = b"", b"", shard.records.segments
    if len(ranges):
        numbers = map(pa.array, (ranges.channel, ranges.first, ranges.stop))
        skipped = to_state(pa.RecordBatch.from_arrays(list(numbers), schema=SKIPPED))
    if len(waiting):
        narrow = (each.astype(np.int32) for each in (shard.records.segment, shard.records.row))
        columns = (waiting.channel, waiting.position, waiting.since_ms, waiting.fin, *narrow)
        places = to_state(pa.RecordBatch.from_arrays([*map(pa.array, columns)], schema=PLACES))
    lines = [
        shard.totals.without_news().to_json(),
        *map(to_line, (to_state(channels), skipped, places)),
        json.dumps(
            {
                "segments": [(each.rows, each.size, each.name) for each in segments],
                "gone": shard.records.gone,
            }
        ),
        *(each.line for each in segments if not each.name),
    ]
    return STATE_FORMAT, state.clock_ms, b"", b"", b"", "\n".join(lines)


def decode_shard(row: Row | None, schema: pa.Schema, files: SegmentFiles | None = None) -> Shard:
    """The shard in a row of STATE, or an empty one.

    ``schema`` is that of its records, ``files`` are where large ones lie.
    """
    records = HeldRecords.empty(schema, files)
    if row is None:
        return Shard(ShardState.empty(), records, Totals())
    if row[0] not in (ROWS_HELD, NO_FILES, STATE_FORMAT):
        raise StateFormatError(row[0], STATE_FORMAT)
    version, clock_ms, *columns, text = row
    totals, *lines = text.split("\n")
    blobs = map(from_line, lines[:3]) if lines else columns
    channels_blob, skipped_blob, held_blob = blobs
    keys, *numbers = from_state(channels_blob, CHANNELS).columns
    skipped, held = Skipped.empty(), Held.empty()
    if skipped_blob:
        skipped = Skipped(*map(_numbers, from_state(skipped_blob, SKIPPED).columns))
    if held_blob and version == ROWS_HELD:
        found = from_state(held_blob, pa.schema([*schema, *HELD])).columns
        held = Held(*map(_numbers, found[len(schema) :]))
        records = HeldRecords.of(pa.Table.from_arrays(found[: len(schema)], schema=schema), files)
    elif held_blob:
        *waiting, segment, row_of = map(_numbers, from_state(held_blob, PLACES).columns)
        held = Held(*waiting)
        records = replace(records, segment=segment.astype(np.int64), row=row_of.astype(np.int64))
    if version != ROWS_HELD:
        records = replace(records, **_segments(lines[3], lines[4:]))
    named = dict(zip(COLUMNS, map(_numbers, numbers), strict=True))
    state = ShardState(keys, **named, held=held, skipped=skipped, clock_ms=clock_ms)
    return Shard(state, records, Totals.from_json(totals))


def _segments(told: str, lines: Iterable[str]) -> dict[str, Any]:
    """What `HeldRecords` has of them."""
    heads = json.loads(told)
    if isinstance(heads, list):  # NO_FILES
        heads = {"segments": [(*head, "") for head in heads], "gone": []}
    rest = iter(lines)
    segments = [
        Segment("" if name else next(rest), rows, size, name)
        for rows, size, name in heads["segments"]
    ]
    return {"segments": segments, "gone": heads["gone"]}


def _numbers(column: pa.Array) -> np.ndarray[Any, Any]:
    return np.asarray(column.to_numpy(zero_copy_only=False))
