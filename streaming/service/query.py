"""One pipeline as one Spark query: source → ingress (pack) → operator → sink."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from streaming.arrow import output
from streaming.arrow.ipc import to_ipc
from streaming.arrow.large_rows import clear
from streaming.arrow.totals import Totals, expected_in
from streaming.crashes import crash_point
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.plan import CONTEXT, BatchContext, Plan
from streaming.disciplines.refused import FINDING, RECORDS_READ
from streaming.disciplines.source import Source
from streaming.errors import (
    NOT_FINISHED,
    CheckpointBehind,
    InputChanged,
    SchemasNeeded,
    SequencerError,
)
from streaming.logs import count, say
from streaming.service.decisions import CHANGED, PINNED, BatchCheckpoint, Decisions
from streaming.service.log_lines import say_commands
from streaming.service.progress import Progress
from streaming.service.schemas import SchemaKeeper, StopRequested
from streaming.sink import failures
from streaming.sink.answers import Answer
from streaming.sink.claim import Claim
from streaming.sink.refusals import RecordsRefused
from streaming.sink.sink import SUMMARY, Report, Sink, Written
from streaming.spark.failures import as_sequencer_error
from streaming.spark.queries import collected, own_workers
from streaming.values.schemas import ids_needed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streaming.kafka.registry import Registry

BEGIN_SECONDS_MAX = 60
YOUNG_MS, OLD_MS = 3_600_000, 86_400_000
"""Kafka keeps progress for longer (`offsets.retention.minutes`): surely; even the first. Another
host's clock may be so far behind, too."""
USUAL_MS_MIN, USUAL_OF = 2_000, 8
"""If nothing stands still, a batch takes about as long as the shortest of the last ones (that many,
with itself), and this at least (ms)."""
REFUSED_TIMES_MAX = 3
"""So often the same may be refused: a reject whole, without its value, without all of it."""


class BatchFailed(Exception):  # noqa: N818
    """A batch failed; the carrier keeps why.

    Spark searches the text of what foreachBatch raises with a regular expression that overflows
    the stack on a long one, and then the query dies without a report.
    """


def build(source: Source, plan: Plan) -> DataFrame:
    """The pipeline's query with its sink; what is left to do in a batch is to have it run."""
    context = source.spark.sparkContext
    with own_workers(context):
        ordered = DISCIPLINES[plan.discipline].build(source, plan)
    with own_workers(context, "sink"):
        return ordered.mapInArrow(Sink(plan), SUMMARY)


class Carrier:
    """What foreachBatch does: run the sink over a batch, then note what it reports.

    Called by the query's thread; the run loop sets ``stopping`` and reads ``failure``.
    ``still_ms``: `Pace.still_ms`.
    """

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        checkpoint: BatchCheckpoint,
        notify: Callable[[Progress], None],
        claim: Claim | None = None,
        registry: Registry | None = None,
        still_ms: int | None = None,
    ) -> None:
        self.plan = plan
        self.still_ms = still_ms if plan.counts_pauses else None
        self.progress = progress
        self.checkpoint = checkpoint
        self.hold = (lambda _batch: None) if claim is None else claim.renew
        self.decisions = Decisions(checkpoint, self.hold)
        self.notify = notify
        self.claim = claim
        self.failure: Exception | None = None
        self._ran_ms: deque[int] = deque(maxlen=USUAL_OF)
        self.stopping = threading.Event()
        self._begun = threading.Event()
        self._schemas: SchemaKeeper | None = None
        if registry is not None:
            waiting = self._wait_for, self.stopping
            self._schemas = SchemaKeeper(self.decisions, registry, plan.pipeline, *waiting)

    def begin(self, query: str) -> None:
        """Let batches run, now that the query's id is known."""
        self.progress.query = query
        self._begun.set()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one batch. Raises BatchFailed where it fails; see also `SchemaKeeper.find`.

        A stop that comes between the batch's plan and this call lets it be written: a planned batch
        is in doubt for the next start, which needs Kafka's progress to tell that it is not written.
        """
        if not self._begun.wait(BEGIN_SECONDS_MAX):
            self.failure = SequencerError(
                f"Spark did not say the query's name within {BEGIN_SECONDS_MAX} s.", NOT_FINISHED
            )
            raise BatchFailed(batch)
        crash_point("1-2")
        try:
            self.hold(batch)
            if self.claim is not None:
                self.decisions.keep(batch)
            self.checkpoint.sync_logs()
            clear(self.plan.large_rows)  # what late tasks of a batch that failed have left since
            self._write(frame, batch)
            self.checkpoint.sync_state()
        except StopRequested:
            raise
        except Exception as failure:  # noqa: BLE001  (kept, and distinguished by the service)
            self.failure = self._judged(failure, batch)
        finally:
            clear(self.plan.large_rows)
        if self.failure is not None:
            raise BatchFailed(batch)
        crash_point("5-6")

    def _judged(self, failure: Exception, batch: int) -> Exception:
        """A failure that passes where the copy that held the checkpoint wrote on for a while.

        What it found of the batch since this query read the decisions is there for the next start.
        Fenced where another copy holds it now, and wrote what this one did not plan.
        """
        is_behind = isinstance(as_sequencer_error(failure), CheckpointBehind)
        if not is_behind or self.claim is None:
            return failure
        try:
            self.hold(batch)
            is_alone = self.decisions.are_kept()
        except SequencerError as error:  # fenced, or nobody can ask now
            return error
        return failure if is_alone else failures.found_meanwhile(self.plan)

    def _write(self, frame: DataFrame, batch: int) -> None:
        progress = self.progress
        began = time.monotonic()
        context = self._context(batch)
        news, before = [], progress.counts()
        answers: list[Answer] = []
        progress.waiting_changed = False
        for report in self._run(frame, context):
            for shard, totals in report.totals:
                found = Totals.from_json(totals)
                news.append(found)
                answers += found.answers
                progress.shards[shard] = found.without_news()
                progress.timers[shard] = found.due_ms
                progress.kept_bytes[shard] = found.kept_bytes
                if found.waiting is not None:
                    progress.waiting[shard] = found.waiting
                    progress.waiting_changed = True
            if report.wrote:
                progress.wrote[report.partition] = batch
            progress.written += report.written
            answers += report.answers
        answers += self._answer(news, context)
        say_commands(self.plan.pipeline, answers)
        progress.note_transit(news)
        seconds = time.monotonic() - began
        progress.measure(before, seconds, expected_in(news))
        progress.waits_for = ""
        progress.batch = batch
        progress.batch_ms = round(seconds * 1000)
        self._ran_ms.append(progress.batch_ms)
        self.notify(progress)

    def _run(self, frame: DataFrame, context: BatchContext) -> list[Report]:
        """Run a batch, and again as long as Kafka refuses records of it for good.

        A state partition that wrote its part in an earlier run finds it there, and writes nothing.
        """
        written: dict[int, Written] = {}
        first = context
        while True:
            frame.sparkSession.sparkContext.setLocalProperty(CONTEXT, context.to_json())
            try:
                reports = [*map(Report.from_text, collected(frame, context is not first))]
                self._require_same(reports, context.batch)
            except Exception as error:  # noqa: BLE001  (Spark's, or py4j's)
                context = self._for_next_run(error, context)
                continue
            began = (each.partition for each in reports if each.wrote or each.refused)
            self.progress.latest |= dict.fromkeys(began, context.batch)
            for report in [each for each in reports if not each.refused]:
                written.setdefault(report.partition, report.written)
            if not any(each.refused for each in reports):
                return [each.with_first(written[each.partition]) for each in reports]
            crash_point("refused")
            context = self._without(reports, context)
            crash_point("refused-kept")

    def _require_same(self, reports: list[Report], batch: int) -> None:
        """Raise InputChanged where shards that count on the same records did not get the same.

        In small batches each state partition reads for itself; compaction may come between.
        """
        if not self.plan.sees_all:
            return
        totals = [totals for report in reports for _, totals in report.totals]
        counts = sorted({Totals.from_json(each).read for each in totals})
        if len(counts) > 1:
            raise failures.read_otherwise(self.plan, batch, counts)

    def _for_next_run(self, error: Exception, context: BatchContext) -> BatchContext:
        """Return the context with the schemas that a task asked for; raise other errors again.

        Keeps it, for the next start, where the batch has other records than what was written.
        """
        asked = as_sequencer_error(error)
        if isinstance(asked, InputChanged):
            self.decisions.add(context.batch, {CHANGED: True})
        if self._schemas is None or not isinstance(asked, SchemasNeeded):
            raise error
        return self._again(context, self._schemas.find(ids_needed(asked), context.batch))

    def _again(self, context: BatchContext, found: Mapping[str, object]) -> BatchContext:
        """The context of another run: this one fenced who wrote before, in other workers."""
        self.progress.wrote.clear()
        return replace(context, wrote={}, decisions={**context.decisions, **found})

    def _wait_for(self, what: str) -> None:
        self.progress.waits_for = what
        self.notify(self.progress)

    def _without(self, reports: list[Report], context: BatchContext) -> BatchContext:
        """Keep refused records as a finding of the batch, for its next run."""
        refused = sorted((each for report in reports for each in report.refused), key=json.dumps)
        read = {str(each.partition): each.records_read for each in reports}
        before = context.decisions.get(FINDING, [])
        if before[-REFUSED_TIMES_MAX:].count(refused) == REFUSED_TIMES_MAX:
            raise failures.refused_again(refused, self.plan)
        findings = {FINDING: [*before, refused], RECORDS_READ: read}
        self.decisions.add(context.batch, findings)
        say(
            f"{self.plan.pipeline}: Kafka refuses {count(len(refused), 'record')} of batch "
            f"{context.batch} for good ({refused[0]['detail']}); the batch is written without them",
            event="refused",
            level="warning",
            pipeline=self.plan.pipeline,
            count=len(refused),
        )
        return self._again(context, findings)

    def _context(self, batch: int) -> BatchContext:
        progress, decisions = self.progress, self.decisions
        decisions.note_clock(batch)
        if self.still_ms is not None:
            ran_ms = self._worked_ms(self.still_ms) if progress.batch == batch - 1 else 0
            decisions.note_pause(batch, ran_ms, self.still_ms)
        wanted = {**self.plan.decisions(), PINNED: self.plan.pinned()}
        standing = decisions.standing(batch, wanted)
        schemas = {} if self._schemas is None else self._schemas.known(batch)
        in_doubt = batch <= progress.in_doubt
        age_ms = round(time.time() * 1000) - decisions.time_ms(batch)
        return BatchContext(
            progress.query,
            batch,
            in_doubt=in_doubt,
            young=in_doubt and bool(progress.remembered) and abs(age_ms) < YOUNG_MS,
            remembered=sorted(progress.remembered) if in_doubt else [],
            old=in_doubt and progress.began_ms - decisions.time_ms(batch) >= OLD_MS,
            wrote=dict(progress.wrote),
            latest=dict(progress.latest),
            digest=decisions.digest(batch, standing),
            repeated=batch <= decisions.planned,
            decisions={
                **standing,
                **(decisions.unread(batch) if self.plan.counts_pauses else {}),
                **schemas,
                **decisions.findings(batch),
            },
            newest_ms=decisions.newest_ms(batch),
        )

    def _worked_ms(self, still_ms: int) -> int:
        """How long the batch before worked, without the time in which something stood still.

        It may have been an executor, until Spark gave its task to another: nothing was read
        meanwhile, as between two batches. Where all batches take that time, none stood still.
        """
        *before, ran_ms = self._ran_ms or [0]
        usual_ms = max(USUAL_MS_MIN, min(before, default=0))
        return min(ran_ms, usual_ms) if ran_ms >= still_ms else ran_ms

    def _answer(self, news: list[Totals], context: BatchContext) -> list[Answer]:
        """Answer commands that concern all shards; of these only the driver knows the whole.

        It writes as one more state partition would, after the others: a repeated batch has the same
        parts, and its progress says whether the answers are there.
        """
        parts = [part for each in news for part in each.parts]
        if not parts:
            return []
        answers = output.together(parts)
        crash_point("5-answers")
        row = {
            "shard": 0,
            "topic": self.plan.events,
            "rows": to_ipc(output.events(answers)),
            "wrote_before": any(each.shared > len(each.parts) for each in news),
        }
        sink, driver = Sink(self.plan), self.plan.state_partitions
        try:
            sink.write(context, driver, row, iter(()), [])
        except RecordsRefused as error:
            raise failures.refused(error.refusals, self.plan) from error
        self.progress.wrote[driver] = self.progress.latest[driver] = context.batch
        crash_point("answers-6")
        return [answer for _, answer in answers]
