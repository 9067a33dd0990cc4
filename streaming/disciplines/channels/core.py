"""The stateful operator of discipline ``channel``: one shard's packs in, one output row out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sequencer.channels import (
    REASONS,
    Arrivals,
    GapFailure,
    Outcome,
    Reason,
    Rejected,
    ShardState,
    step,
)
from streaming.arrow import output
from streaming.arrow.columns import flat
from streaming.arrow.histograms import DISPLACED, LATE_MS, WAITED_MS, counted
from streaming.arrow.key_text import word
from streaming.arrow.output import OUTPUT, Write, output_rows
from streaming.arrow.pack import order_of_arrival, taken, unpacked
from streaming.arrow.partitioner import partitions_of
from streaming.arrow.schemas import columns_in
from streaming.arrow.times import newest_read, oldest_in
from streaming.arrow.totals import ANSWERS_MAX, Totals
from streaming.disciplines.channels.codec import ChannelShard, decode, encode
from streaming.disciplines.channels.commands import ShardCommands
from streaming.disciplines.channels.deliveries import DELIVERED, deliveries, notices
from streaming.disciplines.channels.events import event_id, event_of, wanted_of
from streaming.disciplines.channels.fields import unreadable
from streaming.disciplines.channels.held_records import HeldRecords, Pool
from streaming.disciplines.channels.input_commands import apart
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.channels.records import arrival_schema, record_schema
from streaming.disciplines.channels.refused import without_refused
from streaming.disciplines.channels.shard_files import ShardFiles
from streaming.disciplines.channels.waiting import waiting_report
from streaming.disciplines.refused import NOTHING_REFUSED, Refused
from streaming.disciplines.shards import Core, ShardOperator, no_shares
from streaming.disciplines.state_row import STATE
from streaming.errors import GapTimeout
from streaming.wire.blocks import alike, plain_values
from streaming.wire.encoded import encoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streaming.disciplines.source import Read

EVENTS_AT_ONCE = 10_000
EFFECT = {
    "exactly-once": "Messages of this batch in other channels may be out, and are out once.",
    "at-least-once": "Messages of this batch in other channels may be out, and will be once more.",
}
"""The effect of a batch that a gap failed: each state partition commits by itself."""


def order(packed: DataFrame, plan: ChannelPlan, read: Read = no_shares) -> DataFrame:
    """Step every shard that has packs or is due; return rows of OUTPUT.

    ``read`` reads the shares that shards get in place of packs.
    """
    operator = ChannelOperator(plan, read)
    return packed.groupBy("shard").applyInPandasWithState(
        operator, OUTPUT, STATE, "append", "ProcessingTimeTimeout"
    )


class ChannelOperator(ShardOperator[ChannelPlan, "ChannelCore"]):
    """The operator of a pipeline of discipline `channel` or `label`.

    Cores are not kept: the tables of a million channels would stay in each worker's memory.
    """

    keeps_cores = False

    def begin(self) -> None:
        """Take over also the pauses: timers are set by the rules of now and by these."""
        super().begin()
        pauses = self.plan.rules.pauses
        if self.configured.rules.pauses != pauses:
            self.configured = self.configured.under({"pauses": pauses})

    def core(self, shard: int) -> ChannelCore:
        """Return a shard without channels."""
        return ChannelCore(self.plan, ShardFiles.of(self.plan, self.keys[shard]))

    def rows(self, key: int, core: ChannelCore, packs: Sequence[bytes]) -> Iterator[pd.DataFrame]:
        """See `ShardOperator.rows`."""
        plan, now_ms = self.plan, core.clock_ms
        core.remove_files()
        try:
            writes = core.step(packs, plan.for_batch(self.context), self.refused)
        except GapFailure as gap:
            channel = word(gap.channel)
            raise GapTimeout(
                f"Channel {channel} of pipeline {plan.pipeline!r} has waited "
                f"{gap.waited_ms} ms for label {gap.first} (epoch {gap.epoch}), and its gap policy "
                'is "fail".',
                EFFECT[plan.delivery],
                "Send the missing label, give it up (`sequencer skip CONFIG --channel NAME`, which "
                'the service reads when it starts), or set the policy to "skip" or "wait"; then '
                "start again.",
            ) from gap
        if plan.compression:
            writes = ((topic, _encoded(plan, topic, rows, now_ms)) for topic, rows in writes)
        else:
            writes = ((topic, plain_values(rows)) for topic, rows in writes)
        core.totals.due_ms = core.due_ms(self.configured)
        yield from output_rows(key, writes, core.totals)


def _encoded(plan: ChannelPlan, topic: str, records: pa.Table, now_ms: int) -> pa.Table:
    return encoded(records, plan.partitions[topic], plan.headers, plan.compression, now_ms)


class ChannelCore(Core):
    """One shard. ``shard``: channels, held records, counts; ``files``: those of large parts."""

    def __init__(self, plan: ChannelPlan, files: ShardFiles | None = None) -> None:
        self.plan = plan
        self.files = files
        records = HeldRecords.empty(record_schema(plan), files)
        self.shard = ChannelShard(ShardState.empty(), records, Totals())
        super().__init__()

    @property
    def totals(self) -> Totals:
        """Return the shard's counts."""
        return self.shard.totals

    @totals.setter
    def totals(self, totals: Totals) -> None:
        self.shard = replace(self.shard, totals=totals)

    def step(
        self, packs: Sequence[bytes], plan: ChannelPlan, refused: Refused = NOTHING_REFUSED
    ) -> Iterator[Write]:
        """Process a batch's packs by a plan; yield its writes, made on demand."""
        self.shard, writes = step_shard(self.shard, packs, self.clock_ms, plan, refused)
        self.clock_ms = self.shard.state.clock_ms  # later than the batch after some resets
        return writes

    def dump(self) -> str:
        """Return the state as text; large parts become files."""
        return encode(self.shard)

    def load(self, state: str) -> None:
        """Restore the shard from ``state``."""
        schema = record_schema(self.plan)
        self.shard = decode(state, self.clock_ms, schema, self.files)

    def renew(self, since_ms: int) -> None:
        """See `Core.renew`."""
        self.shard = replace(self.shard, state=self.shard.state.renewed(since_ms))

    def due_ms(self, plan: ChannelPlan) -> int | None:
        """Return when the first gap, retirement or settling channel is due."""
        return self.shard.state.due_ms(plan.rules)

    def remove_files(self) -> None:
        """Remove the files that no batch needs any more."""
        if self.files is not None:
            self.files.remove(self.shard.records.gone)
            self.files.sweep(self.shard.names_kept, self.shard.records.made)


def step_shard(
    shard: ChannelShard,
    packs: Sequence[bytes],
    now_ms: int,
    plan: ChannelPlan,
    refused: Refused = NOTHING_REFUSED,
) -> tuple[ChannelShard, Iterator[Write]]:
    """Process one batch's packs of a shard; return the new shard, and its writes one by one.

    Packs may arrive in any order: rows are sorted by topic, partition and offset, so that a
    repeated batch gives the same bytes. ``refused``: what Kafka refused in earlier runs of the
    batch.
    """
    schema = arrival_schema(plan)
    tables = alike(unpacked(packs, schema))
    batch = pa.concat_tables(tables)
    order = order_of_arrival(batch)
    records_count = np.count_nonzero(batch["topic"].to_numpy() < len(plan.inputs))
    arrived, commands = np.split(order, [records_count])
    arrived, placed, asked_among = apart(tables, arrived, plan)
    asked = ShardCommands.of(plain_values(taken(tables, commands)), plan)
    arrivals = _arrivals(batch, arrived, plan)
    records = shard.records
    given = batch.select(columns_in(batch.schema, records.schema.names))
    pool_of = partial(records.pool, arrived=given, order=arrived, blocks=plan.has_blocks)

    def records_of(rows: NDArray[np.int64]) -> pa.Table:
        return pool_of(records.among(rows)).take(rows, DELIVERED)

    state, retired = plan.before_batch(shard.state, now_ms)
    outcome, details = without_refused(
        partial(step, state, arrivals, now_ms, plan.rules, asked.commands, placed=placed),
        refused,
        records_of,
    )
    now_ms = outcome.state.clock_ms
    if plan.reads_values:
        details = {**unreadable(arrivals.label, len(shard.state.held)), **details}

    dropped = outcome.dropped
    delivered = outcome.delivered.row
    leaving = np.concatenate([delivered[delivered >= 0], outcome.rejected.row[~dropped]])
    outdated = records.outdated(outcome.held_row)
    pool = pool_of(outdated[records.segment] | records.among(leaving))
    after = records.after(outcome.held_row, outdated, pool, timed=bool(plan.progress))
    answers, parts, acted = (asked + asked_among).answers(outcome.answers, now_ms)
    notice_rows = notices(outcome, acted, plan, now_ms)
    totals = _count(shard.totals, outcome, len(arrived), int(dropped.sum()))
    _measure(totals, outcome, now_ms - shard.state.held.since_ms)
    totals.read = len(batch)
    totals.commands += len(asked_among.requests)
    totals.parts = parts
    totals.read_ms, totals.oldest_ms = _times(shard.totals, batch, outcome, after, plan)
    totals.shared += len(totals.parts)
    totals.answers = [answer for _, answer in answers[:ANSWERS_MAX]]
    totals.waiting = waiting_report(shard.state, outcome.state)
    announced = retired + outcome.events
    events = [event_of(event, plan.pipeline, now_ms) for event in announced] + answers

    def writes() -> Iterator[Write]:
        for table in deliveries(pool, outcome, notice_rows, plan):
            yield plan.output, table
        for table in _rejects(pool, outcome, dropped, details, plan):
            yield plan.rejects, refused.stripped(table, now_ms)
        wanted = [*map(wanted_of, outcome.wanted)]
        for topic, each in (plan.events, events), (plan.wanted, wanted):
            for first in range(0, len(each), EVENTS_AT_ONCE):
                yield topic, output.events(each[first : first + EVENTS_AT_ONCE])

    return replace(shard, state=outcome.state, records=after, totals=totals), writes()


def _times(
    before: Totals, batch: pa.Table, outcome: Outcome, held: HeldRecords, plan: ChannelPlan
) -> tuple[dict[str, int], dict[str, int] | None]:
    """Return `Totals.read_ms` and `Totals.oldest_ms`, for progress marks."""
    if held.times is None:
        return before.read_ms, None
    channels, which = np.unique(outcome.state.held.channel, return_inverse=True)
    keys = outcome.state.keys.take(pa.array(channels))
    partitions = partitions_of(keys, plan.partitions[plan.output])[which]
    read_ms = newest_read(before.read_ms, batch, plan.inputs)
    return read_ms, oldest_in(held.times, partitions)


def _arrivals(batch: pa.Table, arrived: np.ndarray, plan: ChannelPlan) -> Arrivals:
    order = pa.array(arrived)
    if plan.gives_labels:
        channel = flat(batch["key" if plan.keyed else "channel"]).take(order)
        none = pa.nulls(len(order), pa.binary())
        return Arrivals(channel, none, none, np.zeros(len(order), np.bool_))
    names = ("key" if plan.keyed else "channel", "label", "epoch")
    channel, label, epoch = (flat(batch[name]).take(order) for name in names)
    return Arrivals(channel, label, epoch, batch["fin"].to_numpy()[arrived])


def _rejects(
    pool: Pool,
    outcome: Outcome,
    dropped: NDArray[np.bool_],
    details: Mapping[int, str],
    plan: ChannelPlan,
) -> Iterator[pa.Table]:
    """Return the rejected records with their reasons, places, and Kafka's answers about them."""
    rejected = outcome.rejected
    leaving = np.flatnonzero(~dropped)
    gaps = {row: event_id(plan.pipeline, "gap", *gap) for row, gap in rejected.gaps.items()}
    for piece in pool.pieces(rejected.row[leaving]):
        at = leaving[piece]
        rows = rejected.row[at]
        reasons = pa.array(REASONS).take(pa.array(rejected.reason[at]))
        places = {"reject-after": _behind(rejected, at), "reject-gap": _texts(gaps, rows)}
        said = _texts(details, rows)
        yield output.rejects(pool.take(rows), reasons, plan.inputs, said, places)


def _behind(rejected: Rejected, at: NDArray[np.int64]) -> pa.Array:
    """Return `<incarnation>/<sequence>` of the delivery before each; null for none."""
    none = rejected.sequence[at] < 0
    numbers = (rejected.incarnation[at], rejected.sequence[at])
    texts = (pa.array(each, mask=none).cast(pa.string()) for each in numbers)
    return pc.binary_join_element_wise(*texts, "/")


def _texts(named: Mapping[int, str], rows: NDArray[np.int64]) -> pa.Array:
    """Return the texts of rows, null if a row has none."""
    if not named:
        return pa.nulls(len(rows), pa.string())
    return pa.array([named.get(row) for row in rows.tolist()], pa.string())


def _count(before: Totals, outcome: Outcome, seen: int, dropped: int) -> Totals:
    rejected = dict(before.rejected)
    counts = np.bincount(outcome.rejected.reason, minlength=len(REASONS))
    counts[Reason.DUPLICATE] -= dropped
    for name, count in zip(REASONS, counts.tolist(), strict=True):
        if count:
            rejected[name] = rejected.get(name, 0) + count
    return replace(
        before,
        seen=before.seen + seen,
        delivered=before.delivered + len(outcome.delivered.row) - len(outcome.notices),
        notices=before.notices + len(outcome.notices),
        passed=before.passed + outcome.passed,
        dropped=before.dropped + dropped,
        gaps=before.gaps + sum(event.kind == "gap" for event in outcome.events),
        rejected=rejected,
        asked=before.asked + len(outcome.wanted),
        answered=before.answered + outcome.answered,
        held=len(outcome.state.held),
        blocked=int(np.count_nonzero(np.diff(outcome.state.held.channel, prepend=-1))),
        channels=len(outcome.state),
    )


def _measure(totals: Totals, outcome: Outcome, waits_ms: NDArray[np.int64]) -> None:
    """Measure how far out of order messages arrived, and how long deliveries had been held.

    ``waits_ms``: those of the messages that were held before the batch.
    """
    disorder, row = outcome.disorder, outcome.delivered.row
    in_order = disorder.in_order
    waited_ms = waits_ms[row[(row >= 0) & (row < len(waits_ms))]]
    if in_order or len(disorder.displaced):
        totals.measure(DISPLACED, counted(DISPLACED, disorder.displaced, in_order))
        totals.measure(LATE_MS, counted(LATE_MS, disorder.late_ms, in_order))
    if len(waited_ms):
        totals.measure(WAITED_MS, counted(WAITED_MS, waited_ms))
