"""The stateful operator of discipline ``channel``: one shard's packs in, one output row out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sequencer.channels import (
    REASONS,
    Arrivals,
    Event,
    Gap,
    GapFailure,
    Outcome,
    Reason,
    step,
)
from streaming import output
from streaming.codec import RECORD, STATE, Shard, decode_shard, encode_shard
from streaming.columns import flat, last_header, partitions_of
from streaming.errors import GapTimeout
from streaming.ipc import from_ipc
from streaming.output import OUTPUT, Write, output_rows
from streaming.pack import header_name
from streaming.plan import ChannelPlan
from streaming.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState


def order(packed: DataFrame, plan: ChannelPlan) -> DataFrame:
    """Step every shard that has packs or whose time is due; rows of OUTPUT."""
    operator = ChannelOperator(plan)
    return packed.groupBy("shard").applyInPandasWithState(
        operator, OUTPUT, STATE, "append", "ProcessingTimeTimeout"
    )


class ChannelOperator:
    """The function that Spark calls for each shard."""

    def __init__(self, plan: ChannelPlan) -> None:
        self.plan = plan

    def __call__(
        self, key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        """Step one shard; the state changes only with what is returned."""
        schema = record_schema(self.plan)
        packs = [] if state.hasTimedOut else [blob for frame in frames for blob in frame["rows"]]
        shard = decode_shard(state.get if state.exists else None, schema)
        now_ms = state.getCurrentProcessingTimeMs()
        try:
            after, writes = step_shard(shard, packs, now_ms, self.plan)
        except GapFailure as gap:
            channel = gap.channel.decode(errors="backslashreplace")
            raise GapTimeout(
                f"Channel {channel!r} of pipeline {self.plan.pipeline!r} has waited "
                f"{gap.waited_ms} ms for label {gap.first} (epoch {gap.epoch}), and its gap policy "
                'is "fail".',
                "This batch took no effect.",
                'Send the missing label, or set the policy to "skip" or "wait"; then start again.',
            ) from gap
        tell = bool(packs or writes)
        rows = output_rows(key[0], writes, after.totals) if tell else None
        state.update(encode_shard(after))
        _set_timer(state, after, now_ms, self.plan)
        if rows is not None:
            yield rows


def record_schema(plan: ChannelPlan) -> pa.Schema:
    """Schema of the records that a shard of this pipeline holds."""
    return pa.schema([each for each in RECORD if each.name != "channel" or not plan.keyed])


def _set_timer(state: Any, shard: Shard, now_ms: int, plan: ChannelPlan) -> None:
    rules = plan.rules
    gap_after_ms = None if rules.gap is Gap.WAIT else rules.gap_after_ms
    due_ms = shard.state.due_ms(gap_after_ms, rules.retire_after_ms)
    if due_ms is not None:
        state.setTimeoutDuration(max(1, due_ms - now_ms))


def step_shard(
    shard: Shard, packs: list[bytes], now_ms: int, plan: ChannelPlan
) -> tuple[Shard, list[Write]]:
    """Take one batch's packs of a shard; the new shard and what it writes.

    Packs may come in any order: rows are sorted by topic, partition and offset, so that a repeated
    batch gives the same bytes.
    """
    schema = record_schema(plan)
    batch, label = _unpack(packs, schema)
    arrived = _order_of_arrival(batch)
    arrivals = _arrivals(batch, label, arrived, plan)
    outcome = step(shard.state, arrivals, now_ms, plan.rules)
    now_ms = outcome.state.clock_ms

    waiting = len(shard.records)
    rows = pa.concat_tables([shard.records, batch.select(schema.names)])
    place = np.concatenate([np.arange(waiting), arrived + waiting])
    records = rows.take(pa.array(place[outcome.held_row])).combine_chunks()
    deliveries = _deliveries(rows, place, outcome, plan)
    rejects, dropped = _rejects(rows, place, outcome, plan)
    told = [_event(each, plan.pipeline, now_ms) for each in outcome.events]
    totals = _count(shard.totals, outcome, len(batch), dropped)
    writes = [
        (plan.output, deliveries),
        (plan.rejects, rejects),
        (plan.events, output.events(told)),
    ]
    return Shard(outcome.state, records, totals), [each for each in writes if len(each[1])]


def _unpack(packs: list[bytes], schema: pa.Schema) -> tuple[pa.Table, pa.ChunkedArray | None]:
    """All rows of the packs, and the label column where SQL made one."""
    if not packs:
        return schema.empty_table(), None
    table = pa.concat_tables([from_ipc(pack) for pack in packs])
    label = table["label"] if "label" in table.column_names else None
    return table.select(schema.names).cast(schema), label


def _order_of_arrival(batch: pa.Table) -> np.ndarray:
    """Rows of the batch sorted by topic, partition, offset."""
    names = ("offset", "partition", "topic")
    return np.lexsort([flat(batch[name]).to_numpy() for name in names])


def _arrivals(
    batch: pa.Table, label: pa.ChunkedArray | None, arrived: np.ndarray, plan: ChannelPlan
) -> Arrivals:
    order = pa.array(arrived)
    channel = flat(batch["key" if plan.keyed else "channel"]).take(order)
    headers = flat(batch["headers"])
    name = header_name(plan.label)
    if name is not None:
        values, present = last_header(headers, name)
        labels = _blank_where(values, present)
    else:
        assert label is not None  # noqa: S101  (pack() adds it for every other expression)
        labels = flat(label)
    epoch, given = last_header(headers, "epoch")
    _, fin = last_header(headers, "fin")
    return Arrivals(
        channel, labels.take(order), _blank_where(epoch, given).take(order), fin[arrived]
    )


def _blank_where(values: pa.Array, present: np.ndarray) -> pa.Array:
    """A header that is there but null reads as an empty one; null then means there is none."""
    if values.null_count == len(values) - int(present.sum()):
        return values
    return pc.if_else(pa.array(present), pc.fill_null(values, b""), pa.scalar(None, values.type))


def _deliveries(rows: pa.Table, place: np.ndarray, outcome: Outcome, plan: ChannelPlan) -> pa.Table:
    """The delivered records for the sink; their partition is that of the channel."""
    delivered = outcome.delivered
    out = rows.select(["key", "value", "headers", "timestamp"]).take(pa.array(place[delivered.row]))
    codes, inverse = np.unique(delivered.channel, return_inverse=True)
    keys = outcome.channels.take(pa.array(codes))  # type: ignore[attr-defined]
    partitions = partitions_of(keys, plan.partitions[plan.output])[inverse]
    out = out.append_column("partition", pa.array(partitions))
    out = out.append_column("sequence", pa.array(delivered.sequence))
    return out.append_column("incarnation", pa.array(delivered.incarnation)).combine_chunks()


def _rejects(
    rows: pa.Table, place: np.ndarray, outcome: Outcome, plan: ChannelPlan
) -> tuple[pa.Table, int]:
    """The rejected records for the sink, and how many duplicates were dropped."""
    row, reason = outcome.rejected_row, outcome.rejected_reason
    dropped = 0
    if plan.drop_duplicates:
        keep = reason != Reason.DUPLICATE
        dropped = int(len(keep) - keep.sum())
        row, reason = row[keep], reason[keep]
    reasons = pa.array(REASONS).take(pa.array(reason))
    return output.rejects(rows.take(pa.array(place[row])), reasons, plan.inputs), dropped


def _event(event: Event, pipeline: str, now_ms: int) -> tuple[bytes, dict[str, Any]]:
    channel = event.channel.decode(errors="backslashreplace")
    place = f"{event.incarnation}:{event.epoch}:{event.place}"
    return event.channel, {
        "event": event.kind,
        "id": f"{pipeline}:{event.kind}:{channel}:{place}",
        "at": output.at(now_ms),
        "channel": channel,
        "epoch": event.epoch,
        "incarnation": event.incarnation,
        **event.fields,
    }


def _count(before: Totals, outcome: Outcome, seen: int, dropped: int) -> Totals:
    rejected = dict(before.rejected)
    counts = np.bincount(outcome.rejected_reason, minlength=len(REASONS))
    counts[Reason.DUPLICATE] -= dropped
    for name, count in zip(REASONS, counts.tolist(), strict=True):
        if count:
            rejected[name] = rejected.get(name, 0) + count
    return replace(
        before,
        seen=before.seen + seen,
        delivered=before.delivered + len(outcome.delivered.row),
        dropped=before.dropped + dropped,
        gaps=before.gaps + sum(event.kind == "gap" for event in outcome.events),
        rejected=rejected,
        held=len(outcome.state.held),
        blocked=len(np.unique(outcome.state.held.channel)),
        channels=len(outcome.state),
    )
