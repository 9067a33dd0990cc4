"""State of a shard as text: its tables, compressed, with a format version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.channels import Held, ShardState
from sequencer.channels.state import COLUMNS, Int64s, Skipped
from streaming.arrow.columns import grouped
from streaming.arrow.ipc import from_line, squeezed, to_line, unsqueezed
from streaming.arrow.numbers import from_bytes, to_bytes
from streaming.arrow.pieces import ends_and_bytes, lengths_of, of_lengths
from streaming.arrow.totals import Totals
from streaming.disciplines.channels import old_states
from streaming.disciplines.channels.held_records import HeldRecords, Segment
from streaming.disciplines.channels.segment_files import SegmentFiles
from streaming.errors import StateFormatError

STATE_FORMAT, ROW_BY_ROW, NO_BLOCKS = 7, 6, 5
STATE = "format int, clock_ms long, channels binary, skipped binary, held binary, totals string"
"""All of it is in ``totals``, line by line: the totals, channels, skipped ranges, where each held
record is, what segments there are (JSON), and those that are no files (see `to_line`). Spark keeps
to the columns that a checkpoint began with; up to the format ROWS_HELD the blobs had theirs.

Tables are numbers in few bytes (`streaming.arrow.numbers`): what is sorted as differences,
positions as distances from their channel's frontier. Since when records are held, and their rows,
are told segment by segment, where they ascend; up to ROW_BY_ROW they were told as they are."""

Row = tuple[int, int, bytes, bytes, bytes, str]


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard's whole state: the channels, the held records (rows of RECORD), the counts."""

    state: ShardState
    records: HeldRecords
    totals: Totals


def encode_shard(shard: Shard) -> Row:
    """The shard as a row of STATE."""
    state, segments = shard.state, shard.records.segments
    lines = [
        shard.totals.without_news().to_json(),
        *map(to_line, (_channels(state), _skipped(state), _places(state, shard.records))),
        json.dumps(
            {
                "segments": [
                    (each.rows, each.size, each.name, *[True] * each.blocks) for each in segments
                ],
                "gone": shard.records.gone,
                "made": shard.records.made,
            }
        ),
        *(each.line for each in segments if not each.name),
    ]
    return STATE_FORMAT, state.clock_ms, b"", b"", b"", "\n".join(lines)


def decode_shard(row: Row | None, schema: pa.Schema, files: SegmentFiles | None = None) -> Shard:
    """The shard in a row of STATE, or an empty one.

    ``schema`` is that of its records, ``files`` are where large ones lie.
    """
    if row is None:
        return Shard(ShardState.empty(), HeldRecords.empty(schema, files), Totals())
    version, clock_ms, *columns, text = row
    totals, *lines = text.split("\n")
    blobs = [*map(from_line, lines[:3])] if lines else columns
    if version == old_states.ROWS_HELD:
        state, table = old_states.with_rows(blobs, clock_ms, schema)
        return Shard(state, HeldRecords.of(table, files), Totals.from_json(totals))
    if version in (NO_BLOCKS, ROW_BY_ROW, STATE_FORMAT):
        state, places = _tables(blobs, clock_ms, as_they_are=version <= ROW_BY_ROW)
    elif version in old_states.IN_SEGMENTS:
        state, places = old_states.with_places(blobs, clock_ms)
    else:
        raise StateFormatError(version, STATE_FORMAT)
    records = replace(HeldRecords.empty(schema, files), **places, **_segments(lines[3], lines[4:]))
    return Shard(state, records, Totals.from_json(totals))


def _channels(state: ShardState) -> bytes:
    ends, data = ends_and_bytes(state.keys)
    names = memoryview(data)[ends[0] : ends[-1]]
    return squeezed(to_bytes([lengths_of(state.keys), *state.columns().values()]) + names)


def _skipped(state: ShardState) -> bytes:
    ranges = state.skipped
    if not len(ranges):
        return b""
    first = ranges.first - state.frontier[ranges.channel]
    return squeezed(to_bytes([_steps(ranges.channel), first, ranges.stop - ranges.first]))


def _places(state: ShardState, records: HeldRecords) -> bytes:
    held = state.held
    if not len(held):
        return b""
    ahead = held.position - state.frontier[held.channel]
    fin = held.fin.astype(np.int64)
    order = grouped(records.segment)
    since_ms, row = (_steps(column[order]) for column in (held.since_ms, records.row))
    return squeezed(to_bytes([_steps(held.channel), ahead, since_ms, fin, records.segment, row]))


def _tables(
    blobs: Sequence[bytes], clock_ms: int, *, as_they_are: bool
) -> tuple[ShardState, dict[str, Any]]:
    """The inverse of the three; of the held records, where they are in segments."""
    channels, ranges, waiting = blobs
    (lengths, *numbers), names = from_bytes(unsqueezed(channels), 1 + len(COLUMNS))
    named = dict(zip(COLUMNS, numbers, strict=True))
    frontier = named["frontier"]
    skipped, held = Skipped.empty(), Held.empty()
    segment = row = np.zeros(0, np.int64)
    if ranges:
        (steps, ahead, length), _ = from_bytes(unsqueezed(ranges), 3)
        channel = np.cumsum(steps)
        first = ahead + frontier[channel]
        skipped = Skipped(channel, first, first + length)
    if waiting:
        (steps, ahead, since_ms, fin, segment, row), _ = from_bytes(unsqueezed(waiting), 6)
        channel = np.cumsum(steps)
        if not as_they_are:
            order = grouped(segment)
            for column in (since_ms, row):
                column[order] = np.cumsum(column)
        held = Held(channel, ahead + frontier[channel], since_ms, fin.astype(np.bool_))
    state = ShardState(
        of_lengths(lengths, names), **named, held=held, skipped=skipped, clock_ms=clock_ms
    )
    return state, {"segment": segment, "row": row}


def _steps(ascending: Int64s) -> Int64s:
    return np.diff(ascending, prepend=0)


def _segments(told: str, lines: Iterable[str]) -> dict[str, Any]:
    """What `HeldRecords` has of them; where NO_BLOCKS and before, none tells of blocks."""
    heads = json.loads(told)
    if isinstance(heads, list):  # old_states.NO_FILES
        heads = {"segments": [(*head, "") for head in heads], "gone": []}
    rest = iter(lines)
    segments = [
        Segment("" if name else next(rest), rows, size, name, *blocks)
        for rows, size, name, *blocks in heads["segments"]
    ]
    return {"segments": segments, "gone": heads["gone"], "made": heads.get("made", 0)}
