"""Which channels of a shard wait, for what and since when: kept beside the checkpoint's status.

A shard reports its LISTED_MAX longest waits, fewer if their keys are large, and only in batches in
which something of them changed; for more, read the state (`whole_waiting`).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sequencer.channels import Rules, ShardState
from sequencer.channels.runs import NOT_COMING, found_in, next_ask_ms
from sequencer.channels.state import NONE, Int64s
from sequencer.sorting import order_by, starts_of
from streaming.arrow.ipc import from_state, to_state
from streaming.arrow.key_text import key_to_json
from streaming.arrow.output import at
from streaming.disciplines.discipline import CUT, LISTED_MAX

NEVER = np.iinfo(np.int64).max
KEYS_BYTES_MAX = 1_000_000
"""How many bytes of keys a report has behind its first key: it goes through the JVM as one text."""
NUMBERS = ("epoch", "frontier", "since_ms", "held", "tries", "asked_ms")
SCHEMA = pa.schema([("channel", pa.binary()), *((name, pa.int64()) for name in NUMBERS)])


def waiting_report(before: ShardState, after: ShardState) -> str | None:
    """The channels that wait after a batch, as text; None where all is as before."""
    if all(map(np.array_equal, _held_by_row(before), _held_by_row(after))):
        return None
    table = _waiting(after, LISTED_MAX)
    key_bytes = np.cumsum(pc.binary_length(table["channel"]).to_numpy()[1:])
    count = 1 + int(np.searchsorted(key_bytes, KEYS_BYTES_MAX, side="right"))
    return _text(table) if count >= len(table) else f"{_text(table[:count])}{CUT}{count}"


def whole_waiting(state: ShardState, most: int | None = None) -> str:
    """Return the channels that wait, as text: all, or the ``most`` that have waited longest."""
    return _text(_waiting(state, most))


def _text(table: pa.RecordBatch) -> str:
    return base64.b64encode(to_state(table)).decode()


def describe_waiting(
    texts: Iterable[str], rules: Rules, most: int | None = None
) -> list[dict[str, Any]]:
    """What shards reported, in one list, longest first (``most`` of them); ``since`` in RFC 3339.

    ``next``: the label that the channel waits for, None while it settles. ``rule``: the glob of its
    rules, None for those of the pipeline; only where there are others. ``asked``: how often the
    first missing labels were asked for, and ``ask_next`` when they will be (RFC 3339), None for not
    again; only where somebody is asked.
    """
    tables = [from_state(base64.b64decode(text.partition(CUT)[0]), SCHEMA) for text in texts]
    table = pa.Table.from_batches(tables, schema=SCHEMA)
    table = table.sort_by([("since_ms", "ascending"), ("channel", "ascending")])
    table = table.slice(0, most).combine_chunks()
    rule = rules.numbers_of(table["channel"].combine_chunks()).tolist()
    return [
        {
            "channel": key_to_json(row["channel"]),
            "epoch": row["epoch"],
            "next": None if row["frontier"] == NONE else rules.labels.at(row["frontier"]),
            "since": at(row["since_ms"]),
            "held": row["held"],
            **({"rule": rules.glob_of(number)} if rules.others else {}),
            **(_asked(row, rules.each[number]) if rules.asks else {}),
        }
        for row, number in zip(table.to_pylist(), rule, strict=True)
    ]


def _asked(row: dict[str, Any], rules: Rules) -> dict[str, Any]:
    next_ms = next_ask_ms(row["since_ms"], row["tries"], row["asked_ms"], rules.ask_ms)
    return {"asked": row["tries"], "ask_next": None if next_ms is None else at(next_ms)}


def _held_by_row(state: ShardState) -> Iterator[Int64s]:
    """What is reported of each message that waits; while one does, a row stays its channel's."""
    rows = state.held.channel
    yield rows
    yield state.held.since_ms
    yield state.frontier[rows]
    yield state.epoch[rows]
    runs = state.runs
    yield from (runs.channel, runs.first, runs.tries, runs.asked_ms)


def _waiting(state: ShardState, most: int | None) -> pa.RecordBatch:
    held = state.held
    starts = starts_of(held.channel)
    rows = held.channel[starts]
    since_ms = np.minimum.reduceat(held.since_ms, starts) if len(starts) else held.since_ms
    count = np.diff(starts, append=len(held))
    longest = order_by(since_ms - since_ms.min(initial=NEVER))[:most]
    rows = rows[longest]
    frontier = np.where(state.start[rows] == NONE, NONE, state.frontier[rows])
    asked = state.runs.take(state.runs.tries != NOT_COMING)
    of = found_in(state.frontier[rows], rows, asked)
    tries, asked_ms = (np.append(each, 0)[of] for each in (asked.tries, asked.asked_ms))
    numbers = (state.epoch[rows], frontier, since_ms[longest], count[longest], tries, asked_ms)
    columns = [state.keys.take(pa.array(rows)), *map(pa.array, numbers)]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
