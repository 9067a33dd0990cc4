"""Restarts: a pipeline that failed in passing is tried again when it is due; others go on."""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from dataclasses import dataclass

from streaming.errors import (
    ConfigError,
    FileUnusable,
    InputChanged,
    InputDamaged,
    InputLost,
    JobFailed,
    KafkaUnavailable,
    ProgressMissing,
    SequencerError,
    StateFormatError,
    StorageUnavailable,
    TopicsMissing,
)
from streaming.kafka import rights
from streaming.logs import say
from streaming.service.kafka_watch import KafkaWatch, Note, pause_after, say_again
from streaming.service.pipeline import Pipeline

ONCE_TRIES_MAX = 3
MISSING_TRIES_MAX = 3
"""A topic may be missing in this many starts, for 15 s at least: new brokers may know none yet."""
REPEATED_LATER = "A batch that was under way will be repeated."

OF_ONE_PIPELINE = (InputChanged, InputDamaged, InputLost, ProgressMissing)
"""Faults of an input, or of one batch: other pipelines go on."""
OF_THE_SERVICE = (ConfigError, JobFailed, StateFormatError)


@dataclass(slots=True)
class Tries:
    """Failures of a pipeline in a row, and when its next start is due (`time.monotonic`).

    ``missing``: how many starts in a row found that a topic is missing.
    ``due`` is None where no start is due: the query runs, or nobody has seen yet that it does not.
    """

    failures: int = 0
    missing: int = 0
    due: float | None = None


class Restarts:
    """Looks after the pipelines, once in each round of the run loop, and waits for none of them.

    A start that fails in passing is tried again in a later round. While Kafka is away none is
    tried, which counts as no failure. ``once``: give up after some failures in a row.
    """

    def __init__(self, kafka: KafkaWatch, note: Note, *, once: bool) -> None:
        self.kafka = kafka
        self.once = once
        self._note = note
        self._tries: dict[str, Tries] = defaultdict(Tries)
        self._is_away = False

    def begin(self, pipeline: Pipeline) -> bool:
        """Start it for the first time, once Kafka answers; False where asked to stop meanwhile.

        Where it cannot start for a reason of its own, others do all the same.
        """
        try:
            return self.kafka.insist(pipeline.start, pipeline.name)
        except OF_ONE_PIPELINE as error:
            self._stop_alone(pipeline, error)
        except (*OF_THE_SERVICE, KafkaUnavailable, StorageUnavailable):
            raise
        except SequencerError as error:  # Spark's, of no known kind
            self._note_failure(pipeline, self._tries[pipeline.name], error)
        return True

    def look_after(self, pipelines: list[Pipeline], *, again: bool) -> None:
        """Start again what failed and is due. JobFailed where a pipeline may not go on.

        ``again``: restart the queries that run between two batches.
        """
        self._is_away = False  # asked once a round: it takes its time
        for pipeline in pipelines:
            tries = self._tries[pipeline.name]
            if pipeline.ended:
                continue
            if tries.due is not None:
                if time.monotonic() >= tries.due:
                    self._try(pipeline, tries)
            elif pipeline.observe():
                self._look_at(pipeline, pipelines, tries, again=again)
            else:
                self._judge(pipeline, tries)

    def _look_at(
        self, pipeline: Pipeline, pipelines: list[Pipeline], tries: Tries, *, again: bool
    ) -> None:
        """Do what there is to do for a query that runs."""
        if pipeline.progressed:
            tries.failures = 0
        if self.once and all(each.ended for each in pipeline.upstream(pipelines)):
            with contextlib.suppress(KafkaUnavailable, FileUnusable):  # the next look asks again
                pipeline.finish_when_through()
        if not pipeline.finished and (pipeline.changes_pace() or again):
            pipeline.stop()
            pipeline.observe()  # it does not run, and may not for a while
            self._try(pipeline, tries)

    def _judge(self, pipeline: Pipeline, tries: Tries) -> None:
        """Judge why a query ended by itself."""
        failure = pipeline.failure()
        if isinstance(failure, OF_ONE_PIPELINE):
            self._stop_alone(pipeline, failure)
        elif isinstance(failure, JobFailed):
            raise failure
        else:
            self._note_failure(pipeline, tries, failure)

    def _try(self, pipeline: Pipeline, tries: Tries) -> None:
        """Start its query once; where a topic was deleted, say, this pipeline alone stops."""
        tries.due = time.monotonic()
        self._is_away = self._is_away or not self.kafka.answers()
        if self._is_away or self.kafka.stopping.is_set():
            return
        try:
            self._start(pipeline)
        except (KafkaUnavailable, StorageUnavailable, FileUnusable) as error:
            self._note_failure(pipeline, tries, error)
        except OF_ONE_PIPELINE as error:
            self._stop_alone(pipeline, error)
        except ConfigError as error:
            tries.missing = tries.missing + 1 if isinstance(error, TopicsMissing) else 0
            if 0 < tries.missing <= MISSING_TRIES_MAX:
                self._note_failure(pipeline, tries, error)
                return
            remedy = f"{error.remedy} Then start the service again."
            self._stop_alone(pipeline, JobFailed(error.message, REPEATED_LATER, remedy))
        except OF_THE_SERVICE:
            raise
        except SequencerError as error:  # Spark's, of no known kind
            self._note_failure(pipeline, tries, error)
        else:
            tries.due, tries.missing = None, 0

    def _start(self, pipeline: Pipeline) -> None:
        """Start its query; KafkaRefused where this user may no longer see its topics.

        Kafka leaves such topics out of its list, as if they were deleted.
        """
        try:
            pipeline.start()
        except ConfigError:
            rights.require(self.kafka.config, [pipeline.name], REPEATED_LATER)
            raise

    def _note_failure(self, pipeline: Pipeline, tries: Tries, failure: SequencerError) -> None:
        """Have its start tried later."""
        if self.once and tries.failures >= ONCE_TRIES_MAX:
            raise JobFailed(f"{pipeline.name} failed {tries.failures + 1} times: {failure}")
        pause = pause_after(tries.failures)
        say_again(pipeline.name, failure, pause)
        self._note("failed", f"{failure} It was tried again.", pipeline.name)
        tries.failures += 1
        tries.due = time.monotonic() + pause

    def _stop_alone(self, pipeline: Pipeline, why: JobFailed) -> None:
        pipeline.stopped_by = why
        say(
            f"{pipeline.name}: {why} This pipeline is stopped; others go on.",
            event="pipeline-stopped",
            level="error",
            pipeline=pipeline.name,
            reason=str(why),
        )
        self._note("pipeline-stopped", str(why), pipeline.name)
