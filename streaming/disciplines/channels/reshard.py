"""Moving channels to other shards, with their held records and skipped labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.channels import Held, ShardState
from sequencer.channels.delays import no_delays
from sequencer.channels.runs import Runs
from sequencer.channels.state import COLUMNS, Int64s, Skipped
from streaming.arrow.totals import Totals
from streaming.disciplines.channels.codec import ChannelShard, decode_shard, encode_shard
from streaming.disciplines.channels.held_records import HeldRecords
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.channels.shard_files import ShardFiles
from streaming.disciplines.channels.waiting import waiting_report
from streaming.disciplines.reshard import Resharded, ShardRow, counts_of
from streaming.disciplines.state_keys import shard_keys, shards_of


def reshard(before: ChannelPlan, after: ChannelPlan, rows: Sequence[ShardRow]) -> Resharded:
    """Move each channel to its shard by the hash of its name."""
    schema = record_schema(before)
    shards = [decode_shard(state, schema, ShardFiles.of(before, key)) for key, state in rows]
    whole = _together([shard.state.under(after.rules) for shard in shards], after.rules.globs)
    totals = counts_of(shard.totals for shard in shards)
    records = pa.concat_tables([schema.empty_table(), *(each.records.table() for each in shards)])
    made = max((each.records.made for each in shards), default=0)
    of = shards_of(whole.keys, after.shards)
    keys = shard_keys(after.shards, after.state_partitions)
    found, waiting = [], {}
    for number in range(after.shards) if rows else ():
        chosen = of == number
        state = _part(whole, chosen)
        held = HeldRecords.of(
            records.filter(pa.array(chosen[whole.held.channel])),
            ShardFiles.of(after, keys[number]),
            made,
        )
        counts = replace(
            totals if number == 0 else Totals(),
            held=len(state.held),
            blocked=len(np.unique(state.held.channel)),
            channels=len(state),
        )
        found.append((keys[number], encode_shard(ChannelShard(state, held, counts))))
        report = waiting_report(ShardState.empty(), state)
        if report is not None:
            waiting[keys[number]] = report
    return Resharded(found, waiting)


def _together(states: Sequence[ShardState], globs: tuple[str, ...]) -> ShardState:
    """Merge all shards; a later shard's channels have higher rows, so columns stay sorted."""
    first = np.cumsum([0, *map(len, states)]).tolist()
    placed = list(zip(states, first, strict=False))

    def joined(parts: Sequence[Any], kind: Any = np.int64) -> Any:
        return np.concatenate([np.zeros(0, kind), *parts])

    numbers: dict[str, Int64s] = {
        name: joined([getattr(state, name) for state in states]) for name in COLUMNS
    }
    held = Held(
        joined([state.held.channel + at for state, at in placed]),
        joined([state.held.position for state in states]),
        joined([state.held.since_ms for state in states]),
        joined([state.held.fin for state in states], np.bool_),
    )
    skipped = Skipped(
        joined([state.skipped.channel + at for state, at in placed]),
        *(
            joined([getattr(state.skipped, name) for state in states])
            for name in ("first", "stop", "incarnation", "gaps", "since_ms")
        ),
    )
    runs = Runs(
        joined([state.runs.channel + at for state, at in placed]),
        *(
            joined([getattr(state.runs, each.name) for state in states])
            for each in fields(Runs)[1:]
        ),
    )
    keys = pa.concat_arrays([pa.array([], pa.binary()), *(state.keys for state in states)])
    clock_ms = max((state.clock_ms for state in states), default=0)
    # Not their sum: after a move each shard has all samples of before.
    delays = np.max([state.delays for state in states], axis=0) if states else no_delays(0)
    return ShardState(
        keys,
        **numbers,
        held=held,
        skipped=skipped,
        runs=runs,
        clock_ms=clock_ms,
        globs=globs,
        delays=delays,
        anchors=tuple(sorted({anchor for state in states for anchor in state.anchors})),
    )


def _part(state: ShardState, chosen: np.ndarray[Any, Any]) -> ShardState:
    """Return the channels of a mask, with their parts of the state."""
    row = np.cumsum(chosen) - 1
    numbers = {name: column[chosen] for name, column in state.columns().items()}
    some = state.held.take(chosen[state.held.channel])
    skipped = state.skipped.take(chosen[state.skipped.channel])
    runs = state.runs.take(chosen[state.runs.channel])
    return ShardState(
        state.keys.filter(pa.array(chosen)),
        **numbers,
        held=replace(some, channel=row[some.channel]),
        skipped=replace(skipped, channel=row[skipped.channel]),
        runs=replace(runs, channel=row[runs.channel]),
        clock_ms=state.clock_ms,
        globs=state.globs,
        delays=state.delays,
        anchors=state.anchors,
    )
