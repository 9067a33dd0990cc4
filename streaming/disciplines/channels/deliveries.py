"""What leaves for the output: deliveries, and among them notices of channels' events.

A notice has the channel as its key, a null value, the batch's time, and the headers `notice` (the
event's kind), `detail` (the event as JSON), `sequence` and `incarnation`. That of a reset has the
command's answer as its detail.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sequencer.channels import Outcome
from sequencer.sorting import order_by
from streaming.arrow import output
from streaming.arrow.partitioner import partitions_of
from streaming.arrow.schemas import HEADERS
from streaming.disciplines.channels.events import event_of
from streaming.disciplines.channels.held_records import Pool
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.wire.blocks import alike

DELIVERED = ("key", "value", "headers", "timestamp")
Int64s = NDArray[np.int64]


def notices(
    outcome: Outcome, answers: Sequence[Mapping[str, Any]], plan: ChannelPlan, now_ms: int
) -> pa.Table:
    """Return the notices as records, in the order of the outcome's; ``answers`` of its commands."""
    details = [
        answers[int(event.fields["command"])]
        if event.kind == "reset"
        else event_of(event, plan.pipeline, now_ms)[1]
        for event in outcome.notices
    ]
    count = len(details)
    texts = [json.dumps(each, ensure_ascii=False).encode() for each in details]
    return pa.table(
        {
            "key": pa.array([event.channel for event in outcome.notices], pa.binary()),
            "value": pa.nulls(count, pa.binary()),
            "headers": pa.nulls(count, HEADERS),
            "timestamp": pa.array(np.full(count, now_ms)),
            "notice": pa.array([event.kind for event in outcome.notices], pa.string()),
            "detail": pa.array(texts, pa.binary()),
        }
    )


def deliveries(
    pool: Pool, outcome: Outcome, notice_rows: pa.Table, plan: ChannelPlan
) -> Iterator[pa.Table]:
    """Yield records for the sink, ``notice_rows`` among them; partitions are the channels'."""
    delivered = outcome.delivered
    starts = np.flatnonzero(np.diff(delivered.channel, prepend=-1))
    keys = outcome.channels.take(pa.array(delivered.channel[starts]))
    runs = np.diff(starts, append=len(delivered.row))
    partitions = np.repeat(partitions_of(keys, plan.partitions[plan.output]), runs)
    order = order_by(partitions)  # here by numbers: encoded, their bytes would be moved for it
    sequence, incarnation = delivered.sequence[order], delivered.incarnation[order]
    added: dict[str, NDArray[Any]] = {"partition": partitions[order]}
    if plan.gives_labels:
        added |= {"label": sequence, "epoch": incarnation}
    added |= {"sequence": sequence, "incarnation": incarnation}
    leaving = delivered.row[order]
    for piece in pool.pieces(leaving):
        rows = _taken(pool, leaving[piece], notice_rows)
        for name, column in added.items():
            rows = rows.append_column(name, pa.array(column[piece]))
        if plan.origin:
            places = _taken(pool, leaving[piece], notice_rows.select(["key"]), output.PLACE)
            rows = output.with_origin(rows, places, plan.inputs)
        yield rows


def _taken(
    pool: Pool, rows: Int64s, notice_rows: pa.Table, names: Sequence[str] = DELIVERED
) -> pa.Table:
    """Return columns of records by their rows, and of notices, whose rows are negative."""
    own = rows >= 0
    records = pool.take(rows[own], names)
    if own.all():
        return records
    both = pa.concat_tables(
        alike([records, notice_rows.take(pa.array(-1 - rows[~own]))]), promote_options="default"
    )
    place = np.empty(len(rows), np.int64)
    place[own] = np.arange(len(records))
    place[~own] = np.arange(len(records), len(rows))
    return both.take(pa.array(place))
