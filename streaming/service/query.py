"""One pipeline as one Spark query: source → ingress (pack) → operator → sink."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from streaming.arrow import output
from streaming.arrow.ipc import to_ipc
from streaming.arrow.totals import Totals
from streaming.crashes import crash_point
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.plan import CONTEXT, BatchContext, Plan
from streaming.disciplines.refused import FINDING, Found
from streaming.disciplines.source import Source
from streaming.logs import say
from streaming.service.decisions import BatchCheckpoint, Decisions
from streaming.sink import failures
from streaming.sink.claim import Claim
from streaming.sink.refusals import RecordsRefused
from streaming.sink.sink import SUMMARY, Report, Sink, Written

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

BEGIN_SECONDS_MAX = 60
REFUSED_TIMES_MAX = 3
"""So often the same may be refused: a reject as it is, without its value, without all of it."""
_environment_lock = threading.Lock()


@dataclass(slots=True)
class Progress:
    """What the driver knows of a pipeline: counts by shard, last batch written by partition.

    ``waiting``: what each shard told last of who waits; ``waiting_changed``: whether one told
    anything in the last batch. ``written``: what the sinks did since the service began.
    ``copies``: deliveries for each record, in the last batches.
    """

    query: str = ""
    batch: int = -1
    batch_ms: int = 0
    in_doubt: int = -1
    shards: dict[int, Totals] = field(default_factory=dict)
    waiting: dict[int, str] = field(default_factory=dict)
    waiting_changed: bool = False
    wrote: dict[int, int] = field(default_factory=dict)
    written: Written = field(default_factory=Written)
    copies: float = 0.0

    def totals(self) -> Totals:
        """All shards together."""
        return Totals.sum(list(self.shards.values()))  # a batch may change it meanwhile

    def kept(self) -> int:
        """About how many entries the state has: channels and what waits."""
        return sum(each.channels + each.held for each in self.shards.values())

    def counts(self) -> tuple[int, int]:
        """Records and deliveries so far."""
        shards = self.shards.values()
        return sum(each.seen for each in shards), sum(each.delivered for each in shards)

    def measure_copies(self, before: tuple[int, int]) -> None:
        """Note what a batch delivered for each record; fewer count by and by."""
        seen, delivered = (after - was for after, was in zip(self.counts(), before, strict=True))
        if seen > 0:
            self.copies = max(delivered / seen, self.copies / 2)


class StopRequested(Exception):  # noqa: N818  (no fault: the way to end a query between batches)
    """The service stops; this batch was not begun."""


class BatchFailed(Exception):  # noqa: N818
    """A batch failed; the carrier keeps why.

    Spark searches the text of what foreachBatch raises with a regular expression that overflows
    the stack on a long one, and then the query dies without a report.
    """


def build(source: Source, plan: Plan) -> DataFrame:
    """The pipeline's query with its sink; what is left to do in a batch is to have it run."""
    context = source.spark.sparkContext
    with _own_workers(context):
        ordered = DISCIPLINES[plan.discipline].build(source, plan)
    with _own_workers(context, "sink"):
        return ordered.mapInArrow(Sink(plan), SUMMARY)


class Carrier:
    """What foreachBatch does: run the sink over a batch, then note what it reports."""

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        checkpoint: BatchCheckpoint,
        notify: Callable[[Progress], None],
        claim: Claim | None = None,
    ) -> None:
        self.plan = plan
        self.progress = progress
        self.checkpoint = checkpoint
        self.decisions = Decisions(checkpoint)
        self.notify = notify
        self.claim = claim
        self.failure: Exception | None = None
        self.stopping = threading.Event()
        self._begun = threading.Event()

    def begin(self, query: str) -> None:
        """Let batches pass, now that the query's id is known."""
        self.progress.query = query
        self._begun.set()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one batch. Raises StopRequested before a batch, BatchFailed where one fails."""
        self._begun.wait(BEGIN_SECONDS_MAX)
        if self.stopping.is_set():
            raise StopRequested
        crash_point("1-2")
        try:
            if self.claim is not None:
                self.claim.renew(batch)
            self.checkpoint.sync_logs()
            self._write(frame, batch)
            self.checkpoint.sync_state()
        except Exception as failure:  # noqa: BLE001  (kept, and told apart by the service)
            self.failure = failure
        if self.failure is not None:
            raise BatchFailed(batch)
        crash_point("5-6")

    def _write(self, frame: DataFrame, batch: int) -> None:
        progress = self.progress
        began = time.monotonic()
        context = self._context(batch)
        news, before = [], progress.counts()
        progress.waiting_changed = False
        for report in self._run(frame, context):
            for shard, totals in report.totals:
                told = Totals.from_json(totals)
                news.append(told)
                progress.shards[shard] = told.without_news()
                if told.waiting is not None:
                    progress.waiting[shard] = told.waiting
                    progress.waiting_changed = True
            if report.wrote:
                progress.wrote[report.partition] = batch
            progress.written += report.written
        self._answer(news, context)
        progress.measure_copies(before)
        progress.batch = batch
        progress.batch_ms = round((time.monotonic() - began) * 1000)
        self.notify(progress)

    def _run(self, frame: DataFrame, context: BatchContext) -> list[Report]:
        """Run a batch, and again as long as Kafka refuses records of it for good.

        A state partition that wrote its part in an earlier run finds it there, and writes nothing.
        """
        written: dict[int, Written] = {}
        while True:
            spark = frame.sparkSession.sparkContext
            spark.setLocalProperty(CONTEXT, context.to_json())
            reports = [Report.from_text(text) for text in _collected(frame)]
            for report in reports:
                if not report.refused:
                    written.setdefault(report.partition, report.written)
            refused = [each for report in reports for each in report.refused]
            if not refused:
                return [replace(each, written=written[each.partition]) for each in reports]
            crash_point("refused")
            context = self._without(sorted(refused, key=json.dumps), context)
            crash_point("refused-kept")

    def _without(self, refused: list[Found], context: BatchContext) -> BatchContext:
        """Keep refused records as a finding of the batch, for its next run."""
        before = context.decisions.get(FINDING, [])
        if before[-REFUSED_TIMES_MAX:].count(refused) == REFUSED_TIMES_MAX:
            raise failures.refused_again(refused, self.plan)
        findings = {FINDING: [*before, refused]}
        self.decisions.add(context.batch, findings)
        say(
            f"{self.plan.pipeline}: Kafka refuses {len(refused):,} record(s) of batch "
            f"{context.batch} for good ({refused[0]['detail']}); the batch is written without them",
            event="refused",
            level="warning",
            pipeline=self.plan.pipeline,
            count=len(refused),
        )
        return replace(context, decisions={**context.decisions, **findings})

    def _context(self, batch: int) -> BatchContext:
        progress, decisions = self.progress, self.decisions
        standing = decisions.standing(batch, self.plan.decisions())
        return BatchContext(
            progress.query,
            batch,
            in_doubt=batch <= progress.in_doubt,
            wrote=dict(progress.wrote),
            digest=decisions.digest(batch, standing),
            repeated=batch <= decisions.planned,
            decisions={**standing, **decisions.findings(batch)},
        )

    def _answer(self, news: list[Totals], context: BatchContext) -> None:
        """Answer commands that concern all shards; of these only the driver knows the whole.

        It writes as one more state partition would, after the others: a repeated batch has the same
        parts, and its progress says whether the answers are there.
        """
        parts = [part for told in news for part in told.parts]
        if not parts:
            return
        crash_point("5-answers")
        row = {
            "shard": 0,
            "topic": self.plan.events,
            "rows": to_ipc(output.events(output.together(parts))),
            "wrote_before": any(told.shared > len(told.parts) for told in news),
        }
        sink = Sink(self.plan)
        try:
            sink.write(context, self.plan.state_partitions, row, iter(()), [])
        except RecordsRefused as error:
            raise failures.refused(error.refusals, self.plan) from error
        self.progress.wrote[self.plan.state_partitions] = context.batch
        crash_point("answers-6")


def _collected(frame: DataFrame) -> list[str]:
    """Run a batch's query; the texts that it comes to, one of each partition.

    The frame that foreachBatch gets stands for an RDD. Asked through the frame, Spark would plan
    once more, generate code and note another execution: a tenth of what a small batch takes. The
    RDD's rows share their memory within a partition, so each may have one.
    """
    rows = frame._jdf.queryExecution().logical().rdd().collect()  # noqa: SLF001
    return [row.getString(0) for row in rows]


def begin_workers(spark: SparkSession, tasks: int) -> None:
    """Start the Python workers of operators and sink, ``tasks`` of each, without waiting for them.

    The first batch would wait for one kind after the other, while a core is idle.
    """

    def begin(*stage: str) -> None:
        with contextlib.suppress(Exception):  # what is wrong, the first batch tells
            with _own_workers(spark.sparkContext, *stage):
                numbers = spark.range(0, tasks, 1, tasks).mapInArrow(_same, "id long")
            numbers.collect()

    for stage in ((), ("sink",)):
        threading.Thread(target=begin, args=stage, daemon=True).start()


def _same(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


@contextlib.contextmanager
def _own_workers(context: SparkContext, stage: str = "") -> Iterator[None]:
    """Functions wrapped inside get Python workers of their own; without ``stage`` the usual ones.

    Spark hands a task whichever idle worker has the same environment; the sink's producers live in
    its workers, so these must not be mixed with those of other stages.
    """
    with _environment_lock:  # all pipelines of the session share it
        usual: dict[str, Any] = context.environment
        # A new dictionary: Spark may be walking through the old one in another thread.
        context.environment = {**usual, **({"SEQUENCER_STAGE": stage} if stage else {})}
        try:
            yield
        finally:
            context.environment = usual


def start(
    frame: DataFrame,
    plan: Plan,
    checkpoint: str,
    carrier: Carrier,
    *,
    trigger_ms: int,
) -> StreamingQuery:
    """Start the query; a batch begins every ``trigger_ms``, or when the one before is done."""
    writer = (
        frame.writeStream.queryName(plan.pipeline)
        .foreachBatch(carrier)
        .option("checkpointLocation", checkpoint)
        .outputMode("append")
    )
    return writer.trigger(processingTime=f"{trigger_ms} milliseconds").start()
