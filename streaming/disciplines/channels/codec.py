"""State of a shard as text: its tables, compressed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.channels import Held, ShardState
from sequencer.channels.delays import BUCKETS
from sequencer.channels.runs import Runs
from sequencer.channels.state import COLUMNS, Int64s, Skipped
from sequencer.sorting import order_by
from streaming.arrow.ipc import from_line, join, split, squeezed, to_line, unsqueezed
from streaming.arrow.numbers import from_bytes, to_bytes
from streaming.arrow.pieces import ends_and_bytes, lengths_of, of_lengths
from streaming.arrow.totals import Totals
from streaming.disciplines.channels.held_records import HeldRecords, Segment
from streaming.disciplines.channels.shard_files import ShardFiles
from streaming.disciplines.state_row import StateRow

TABLES = 4
TABLES_KEPT_MS, TABLES_KEPT_MAX = 5_000, 32
"""How long, in batch time, an unused file of tables is kept, and how many of a shard at most: a
reader of the state while the service runs (`sequencer inspect`) gets its name from Spark first."""


@dataclass(frozen=True, slots=True)
class ChannelShard:
    """A shard's whole state: the channels, the held records (rows of RECORD), the counts.

    ``tables``: the file that the channels were read from, "" for none. ``left``: unused files of
    earlier batches, each with the batch time at which its use ended.
    """

    state: ShardState
    records: HeldRecords
    totals: Totals
    tables: str = ""
    left: Sequence[tuple[str, int]] = ()

    @property
    def names(self) -> set[str]:
        """Return the names of the files in use."""
        return {*self.records.names, self.tables} - {""}

    @property
    def names_kept(self) -> set[str]:
        """Return the names of files in use, and of those kept for readers of an earlier state."""
        return {*self.names, *(name for name, _ in self.left)}


def encode_shard(shard: ChannelShard) -> StateRow:
    """Return the shard as a row of the state store; see :func:`encode`."""
    text = encode(shard)
    return StateRow(shard.state.clock_ms, shard.totals.without_news().to_json(), text)


def encode(shard: ChannelShard) -> str:
    """Return the shard as text; large parts become files.

    Its lines: the channels, the skipped ranges, the runs that were asked for, where each held
    record is (TABLES tables), which segments and files there are (JSON), and the segments that are
    no files (see `to_line`). The tables are one file, and their lines empty, where they are large.

    Tables are frame-of-reference encoded (`streaming.arrow.numbers`): sorted columns as
    differences, positions as distances from their channel's frontier, incarnations of gaps from the
    channel's own. The times since when records are held, and their rows, are in order of segment,
    where they ascend.
    """
    state, records = shard.state, shard.records
    tables = [_channels(state), _skipped(state), _runs(state), _places(state, records)]
    name, made = "", records.made
    if records.files is not None and records.files.wants(sum(map(len, tables))):
        name = records.files.put(pa.py_buffer(join(tables)), made)
        made += 1
        tables = [b""] * TABLES
    due, left = _let_go(shard)
    lines = [
        *(to_line(squeezed(table) if table else b"") for table in tables),
        json.dumps(
            {
                "segments": [
                    (each.rows, each.size, each.name, each.blocks) for each in records.segments
                ],
                "gone": [*records.gone, *due],
                "made": made,
                "tables": name,
                "left": left,
                "globs": state.globs,
                "timed": records.times is not None,
                "delays": state.delays.tolist(),
                "anchors": state.anchors,
            }
        ),
        *(each.line for each in records.segments if not each.name),
    ]
    return "\n".join(lines)


def decode_shard(row: StateRow, schema: pa.Schema, files: ShardFiles | None = None) -> ChannelShard:
    """Return the shard of a row of the state store; an empty one of an empty row.

    ``schema`` is that of its records, ``files`` are where large parts of it lie.
    """
    totals = Totals.from_json(row.totals)
    if not row.core:
        return ChannelShard(ShardState.empty(), HeldRecords.empty(schema, files), totals)
    return replace(decode(row.core, row.clock_ms, schema, files), totals=totals)


def decode(
    text: str, clock_ms: int, schema: pa.Schema, files: ShardFiles | None = None
) -> ChannelShard:
    """Return the shard of a text, without its totals. ``clock_ms``: its latest batch's time."""
    lines = text.split("\n")
    contents = json.loads(lines[TABLES])
    if contents["tables"]:
        assert files is not None  # noqa: S101  (the state's folder is the plan's)
        tables = split(files.get(contents["tables"]), TABLES)
    else:
        blobs = map(from_line, lines[:TABLES])
        tables = [unsqueezed(blob) if blob else pa.py_buffer(b"") for blob in blobs]
    state, places = _tables(tables, clock_ms, timed=contents["timed"])
    state = replace(
        state,
        globs=tuple(contents["globs"]),
        delays=_delays(contents["delays"]),
        anchors=tuple((position, label) for position, label in contents["anchors"]),
    )
    segments = _segments(contents, lines[TABLES + 1 :])
    records = replace(HeldRecords.empty(schema, files), **places, **segments)
    return ChannelShard(state, records, Totals(), contents["tables"], contents["left"])


def _delays(rows: list[list[int]]) -> Int64s:
    return np.array(rows, dtype=np.int64).reshape(len(rows), BUCKETS)


def _let_go(shard: ChannelShard) -> tuple[list[str], list[tuple[str, int]]]:
    """Return the files of tables to remove, and the unused ones that are kept after this batch."""
    clock_ms = shard.state.clock_ms
    left = [*shard.left, *([(shard.tables, clock_ms)] if shard.tables else [])]
    old = sum(left_ms <= clock_ms - TABLES_KEPT_MS for _, left_ms in left)
    due = max(old, len(left) - TABLES_KEPT_MAX)
    return [name for name, _ in left[:due]], left[due:]


def _channels(state: ShardState) -> bytes:
    ends, data = ends_and_bytes(state.keys)
    names = memoryview(data)[ends[0] : ends[-1]]
    return to_bytes([lengths_of(state.keys), *state.columns().values()]) + names


def _skipped(state: ShardState) -> bytes:
    ranges = state.skipped
    if not len(ranges):
        return b""
    first = ranges.first - state.frontier[ranges.channel]
    since = ranges.incarnation - state.incarnation[ranges.channel]
    length = ranges.stop - ranges.first
    return to_bytes([_steps(ranges.channel), first, length, since, ranges.gaps, ranges.since_ms])


def _runs(state: ShardState) -> bytes:
    runs = state.runs
    if not len(runs):
        return b""
    first = runs.first - state.frontier[runs.channel]
    since = runs.incarnation - state.incarnation[runs.channel]
    epoch = runs.epoch - state.epoch[runs.channel]
    numbers = (first, runs.stop - runs.first, since, epoch, runs.tries, runs.asked_ms)
    return to_bytes([_steps(runs.channel), *numbers])


def _places(state: ShardState, records: HeldRecords) -> bytes:
    held = state.held
    if not len(held):
        return b""
    ahead = held.position - state.frontier[held.channel]
    fin = held.fin.astype(np.int64)
    order = order_by(records.segment)
    since_ms, row = (_steps(column[order]) for column in (held.since_ms, records.row))
    times = [] if records.times is None else [records.times]
    return to_bytes([_steps(held.channel), ahead, since_ms, fin, records.segment, row, *times])


def _tables(
    tables: Sequence[pa.Buffer], clock_ms: int, *, timed: bool
) -> tuple[ShardState, dict[str, Any]]:
    """Decode the tables; return the state, and the held records' places in segments."""
    channels, ranges, missing, waiting = tables
    (lengths, *numbers), names = from_bytes(channels, 1 + len(COLUMNS))
    named: dict[str, Any] = dict(zip(COLUMNS, numbers, strict=True))
    frontier = named["frontier"]
    skipped, runs, held = Skipped.empty(), Runs.empty(), Held.empty()
    segment = row = np.zeros(0, np.int64)
    times: list[Int64s] = []
    if len(ranges):
        (steps, ahead, length, since, gaps, since_ms), _ = from_bytes(ranges, 6)
        channel = np.cumsum(steps)
        first = ahead + frontier[channel]
        incarnation = since + named["incarnation"][channel]
        skipped = Skipped(channel, first, first + length, incarnation, gaps, since_ms)
    if len(missing):
        (steps, ahead, length, since, epoch, tries, asked_ms), _ = from_bytes(missing, 7)
        channel = np.cumsum(steps)
        first = ahead + frontier[channel]
        of = (since + named["incarnation"][channel], epoch + named["epoch"][channel])
        runs = Runs(channel, first, first + length, *of, tries, asked_ms)
    if len(waiting):
        columns, _ = from_bytes(waiting, 6 + timed)
        steps, ahead, since_ms, fin, segment, row, *times = columns
        channel = np.cumsum(steps)
        order = order_by(segment)
        for column in (since_ms, row):
            column[order] = np.cumsum(column)
        held = Held(channel, ahead + frontier[channel], since_ms, fin.astype(np.bool_))
    state = ShardState(
        of_lengths(lengths, names),
        **named,
        held=held,
        skipped=skipped,
        runs=runs,
        clock_ms=clock_ms,
    )
    known = (times[0] if times else np.zeros(0, np.int64)) if timed else None
    return state, {"segment": segment, "row": row, "times": known}


def _steps(ascending: Int64s) -> Int64s:
    return np.diff(ascending, prepend=0)


def _segments(contents: dict[str, Any], lines: Iterable[str]) -> dict[str, Any]:
    """Return the segments' fields of `HeldRecords`."""
    rest = iter(lines)
    segments = [
        Segment("" if name else next(rest), rows, size, name, blocks)
        for rows, size, name, blocks in contents["segments"]
    ]
    return {"segments": segments, "gone": contents["gone"], "made": contents["made"]}
