"""One pipeline while it runs: its query, its status file, its failures."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from streaming.config import Config
from streaming.disciplines import DISCIPLINES, has_rows
from streaming.disciplines.plan import Plan
from streaming.errors import SequencerError
from streaming.kafka import limits, topics
from streaming.kafka.registry import Registry
from streaming.service import planning
from streaming.service.checkpoint import Checkpoint, Identity
from streaming.service.histories import settle_alone
from streaming.service.log_lines import WAITING_MAX, say_waiting
from streaming.service.marks import MarksWriter
from streaming.service.offsets import Through, TransitCleaner
from streaming.service.planning import kept_partitions, make_plan, shards, state_partitions
from streaming.service.progress import Progress, shards_in, status_of
from streaming.service.query import Carrier, build
from streaming.service.speed import Speed
from streaming.settings.values import SUBSCRIBER
from streaming.sink.claim import Claim
from streaming.sink.fences import Fences
from streaming.source import source_of
from streaming.source.losses import Acceptance
from streaming.source.pacing import Pace
from streaming.spark.failures import as_sequencer_error
from streaming.spark.queries import start, stop_between_batches
from streaming.spark.scratch import large_rows
from streaming.spark.session_access import use_state_format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from streaming.disciplines.source import Source

STOP_SECONDS_MAX = 30
OBSERVE_SECONDS = 2.0
WAITING_SECONDS = 60.0


class Pipeline:
    """Starts, watches and stops the query of one pipeline.

    ``runs`` and ``last_report`` (Spark's, of the last batch) are as of the last :meth:`observe`:
    a request for metrics asks no JVM, which may hang, or end. ``worked``: when the last batch
    ended, a source was asked for what is new, or the query was started since (Unix time).

    All methods are for the run loop's thread; the query's thread calls back after each batch
    (`_note`), request threads only read.
    """

    def __init__(
        self,
        session: SparkSession,
        config: Config,
        name: str,
        checkpoint: Checkpoint,
        *,
        say: Callable[..., None],
        once: bool,
        accept_repeats: bool,
        accept_lost_input: bool = False,
    ) -> None:
        self.session = session
        self.config = config
        self.name = name
        self.checkpoint = checkpoint
        self.say = say
        self.once = once
        self.accept_repeats = accept_repeats
        self.accept_lost_input = accept_lost_input
        self._accepted: Acceptance | None = None
        self.progress = Progress()
        self.query: StreamingQuery | None = None
        self.source: Source | None = None
        self.pace = Pace()
        self.carrier: Carrier | None = None
        self._claim: Claim | None = None
        self._fences = Fences()
        self._reported: dict[str, int] = {}
        self._batch_seen = -1
        self._waiting_said = time.monotonic()
        self.discipline = DISCIPLINES[config.pipelines[name].discipline]
        self.speed = Speed(self.discipline.pace(config.pipelines[name]))
        self._through = Through(config, name)
        self._clean = TransitCleaner(config, name, say, checkpoint.behind)
        self.finished = self.runs = False
        self.stopped_by: SequencerError | None = None
        self.worked = self._observed = 0.0
        self.last_report: Any = None
        self._marks: MarksWriter | None = None
        self.starts = self.state_partitions = 0

    def start(self) -> None:
        """Start the query, or start it again after a failure, from its checkpoint."""
        plan, settings = self._plan(), self.config.pipelines[self.name]
        if Claim.is_needed(plan, self.config.spark, lockable=self.checkpoint.lockable):
            self._claim = self._claim or Claim(plan)
            self._claim.connect_as(plan)
        remembered = settle_alone(
            plan,
            self.checkpoint,
            self.say,
            self._fences,
            self._claim,
            accept_repeats=self.accept_repeats and self.starts == 0,
            accept_lost_input=self.accept_lost_input and self.starts == 0,
        )
        if self._claim is not None:  # a move that closed the checkpoint meanwhile held it before
            self.checkpoint.require_here()
        for name in self.checkpoint.remove_damaged_figures():
            self.say(
                f"{self.name}: {name} was damaged, and is removed: it has only figures, which are "
                "whole again when every shard has had a batch.",
                event="figures-damaged",
                level="warning",
                pipeline=self.name,
            )
        status = self.checkpoint.status()
        self.progress = Progress(
            in_doubt=self.checkpoint.batch_in_doubt(),
            remembered=remembered,
            latest=dict.fromkeys(range(plan.state_partitions + 1), self.checkpoint.planned()),
            shards=shards_in(status),
            waiting=self.checkpoint.waiting(),
            written=self.progress.written,
            began_ms=self.progress.began_ms,
        )
        self.state_partitions = plan.state_partitions
        registry = Registry.of(self.config) if settings.needs_registry else None
        due_ms = partial(self.progress.due_ms, plan.shards)
        self.pace = Pace() if self.once else Pace(self.config.service.trigger.ms, due_ms)
        more = self._claim, registry, self.pace.still_ms
        self.carrier = Carrier(plan, self.progress, self.checkpoint, self._note, *more)
        self.session.conf.set("spark.sql.shuffle.partitions", str(plan.state_partitions))
        use_state_format(self.session, self.checkpoint.state_format())
        limits = self.speed.limits(self.config.service, self.progress)
        if self.accept_lost_input and self._accepted is None:
            self._accepted = Acceptance({*plan.reads}, self._say_lost)
        self.source = source_of(self.session, plan, limits, self._accepted, self.pace)
        frame = build(self.source, plan)
        if plan.progress:
            rest = self.progress, self.say, self._marks, self.config
            self._marks = MarksWriter(plan, self.checkpoint, *rest)
            self._marks.begin(status.get("batch", -1) if self.progress.in_doubt < 0 else -1)
        # Nothing behind it fails: who would stop the query?
        self.query = start(frame, plan.pipeline, self.checkpoint.location, self.carrier)
        self.starts += 1
        self.worked = time.time()
        self.carrier.begin(str(self.query.id))

    @property
    def ended(self) -> bool:
        """Whether the pipeline has finished its input, or has stopped for good."""
        return self.finished or self.stopped_by is not None

    def _say_lost(self, text: str) -> None:
        self.say(f"{self.name}: {text}", event="lost-input", level="warning", pipeline=self.name)

    def _plan(self) -> Plan:
        settings = self.config.pipelines[self.name]
        wanted = self._identity()
        wishes = () if self.config.service.shards else ("shards",)
        identity = planning.pinned(self.session, self.checkpoint, wanted, wishes)
        for key, part in self.discipline.fixed.items():
            if not part.remedy and identity.own[key] != wanted.own[key]:
                self.say(
                    f"pipelines.{self.name}.{key} is not what the checkpoint began with; it is "
                    f"passed over. {part.instead}",
                    event="passed-over",
                    level="warning",
                    pipeline=self.name,
                )
        written = [name for name in settings.written.values() if SUBSCRIBER not in name]
        partitions = kept_partitions(
            self.checkpoint, topics.partitions(self.config, written), self.say
        )
        new_topics = {}
        if len(written) < len(settings.written):
            new_topics = limits.settings(self.config, topics.existing(self.config))
        plan = make_plan(self.config, self.name, identity, partitions, new_topics)
        folder = large_rows(self.session, self.name, sees_rows=has_rows([settings]))
        return replace(plan, large_rows=folder)

    def _identity(self) -> Identity:
        settings = self.config.pipelines[self.name]
        cores = self.session.sparkContext.defaultParallelism
        return Identity(
            discipline=self.discipline.name,
            shards=shards(self.config, cores),
            state_partitions=state_partitions(self.config, cores),
            inputs=sorted(settings.input),
            own=self.discipline.identity(settings),
        )

    def changes_pace(self) -> bool:
        """Whether to read inputs slowly from now on, or at full speed again.

        Spark fixes a batch's limit when a query starts, so the query has to be started again.
        """
        if not self.speed.changes(self.progress.totals().held):
            return False
        if self.speed.slow:
            self.say(
                f"{self.name}: {self.progress.totals().held:,} deliveries wait for their turn; "
                f"reading few inputs until there are fewer than {self.speed.pace.held_low:,}",
                event="slow",
                level="warning",
                pipeline=self.name,
            )
        return True

    def observe(self) -> bool:
        """Ask Spark whether the query runs; note this and Spark's report for other threads."""
        self.runs = self.query is not None and self.query.isActive
        self.worked = max(self.worked, self.pace.looked)
        now = time.monotonic()
        if self.query is not None and self.runs and now - self._observed >= OBSERVE_SECONDS:
            self._observed = now
            self.last_report = self.query.lastProgress
        return self.runs

    def upstream(self, others: list[Pipeline]) -> list[Pipeline]:
        """Those of ``others`` that write what this one reads."""
        settings = self.config.pipelines[self.name]
        read = {*settings.input, settings.commands}
        return [
            other
            for other in others
            if other is not self and read & self.config.pipelines[other.name].topics_written()
        ]

    def finish_when_through(self) -> None:
        """With ``--once``: stop after the batch that reaches the ends first seen here.

        A query may have nothing to read, and no batch that Spark would report.
        """
        if self._through(self.pace.done):
            self.stop()
            self.finished = True

    def clean_transit(self) -> None:
        """Delete what no restart reads again."""
        if self.query is not None and self.query.isActive:
            self._clean(self.query.lastProgress)

    @property
    def progressed(self) -> bool:
        """Whether a batch was done since the last call."""
        done, self._batch_seen = self._batch_seen, self.progress.batch
        return self._batch_seen > done

    def failure(self) -> SequencerError:
        """Why the query stopped, as one of our errors; ask once."""
        raised: object = None if self.carrier is None else self.carrier.failure
        if raised is None:
            raised = self.query.exception() if self.query is not None else "it never started"
        is_alone = self.checkpoint.is_locked or self._claim is not None
        return self._fences.judged(as_sequencer_error(raised), is_alone=is_alone)

    def stop(self) -> None:
        """Stop between batches."""
        self.ask_to_stop()
        self.wait_stopped(time.monotonic() + STOP_SECONDS_MAX)
        if self.query is not None:
            self.query.stop()

    def ask_to_stop(self) -> None:
        """Let the running batch finish and begin no other."""
        if self.source is not None:
            self.source.ended.set()
        if self.carrier is not None:
            self.carrier.stopping.set()

    def wait_stopped(self, deadline: float) -> None:
        """Wait until the query has stopped; stop it by force at the deadline.

        Its last mark may come later (:meth:`wait_marked`).
        """
        if self.query is not None:
            stop_between_batches(self.query, deadline)
        if self._marks is not None:
            self._marks.ask_to_stop()

    def wait_marked(self, deadline: float) -> None:
        """Wait for the last mark, after :meth:`wait_stopped`."""
        if self._marks is not None:
            self._marks.wait_stopped(deadline)

    def report(self, *, last: bool = False) -> None:
        """Log what was done, if anything changed."""
        progress, totals = self.progress, self.progress.totals()
        counts = {
            "in": totals.seen,
            "delivered": totals.delivered,
            "held": totals.held,
            "rejected": sum(totals.rejected.values()),
        }
        if progress.batch < 0 or (counts == self._reported and not last):
            return
        self._reported = counts
        summary = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        self.say(
            f"{self.name}: {summary}; batch {progress.batch} took {progress.batch_ms} ms",
            event="report",
            pipeline=self.name,
            **counts,
            blocked=totals.blocked,
            gaps=totals.gaps,
            batch=progress.batch,
            batch_ms=progress.batch_ms,
        )

    def report_waiting(self) -> None:
        """Log once a minute which channels have waited longest, if one has for a minute."""
        now = time.monotonic()
        blocked = self.progress.totals().blocked
        if blocked and now - self._waiting_said >= WAITING_SECONDS:
            self._waiting_said = now
            settings, texts = self.config.pipelines[self.name], [*self.progress.waiting.values()]
            waiting = self.discipline.waiting(settings, texts, WAITING_MAX)
            say_waiting(self.name, self.discipline.key, waiting, blocked)

    def _note(self, progress: Progress) -> None:
        self.worked = time.time()
        if self._marks is not None:
            self._marks.note(progress.batch)
        if progress.waiting_changed:
            self.checkpoint.write_waiting(progress.waiting)
        self.checkpoint.write_status(
            {
                "pipeline": self.name,
                "discipline": self.config.pipelines[self.name].discipline,
                "query": progress.query,
                "batch": progress.batch,
                "batch_ms": progress.batch_ms,
                "waits_for": progress.waits_for,
                "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "shards": status_of(progress.shards),
            }
        )
