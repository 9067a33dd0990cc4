"""The running service: a Spark session, one query for each pipeline, restarts, a clean stop."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from streaming.config import Config
from streaming.kafka import limits, rights, topics
from streaming.logs import count, say
from streaming.service.checkpoint import Checkpoint
from streaming.service.kafka_watch import POLL_SECONDS, KafkaWatch
from streaming.service.last_said import farewell
from streaming.service.marks import END_SECONDS_MAX
from streaming.service.metrics import served
from streaming.service.metrics.health import Health
from streaming.service.pipeline import STOP_SECONDS_MAX, Pipeline
from streaming.service.planning import (
    known_partitions,
    require_own,
    require_understood,
    state_partitions,
)
from streaming.service.restarts import Restarts
from streaming.spark import preflight
from streaming.spark.cluster import DEFAULT_MASTER, Cluster, is_local_master, wait_for_master
from streaming.spark.jvm import Jvm
from streaming.spark.queries import begin_workers
from streaming.spark.session import spark_session
from streaming.spark.settings import remarks
from streaming.spark.wall_clock import WallClock
from streaming.stopping import Stopping

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPORT_SECONDS = 10.0
ARCHIVE_AFTER_SECONDS_MAX = 20
"""A stop that took longer has no time left for an archive of the JVM's classes."""
MARKED_SECONDS_MAX = 40
"""Since a stop was asked for, until the last marks of all pipelines are given up: the session's end
takes up to 15 s, and a clean stop 60 s."""

Say = Callable[[str], None]


class Service:
    """Runs pipelines until asked to stop, or (``once``) until their input is worked through.

    ``jvm`` has been started for it. ``stopping``: who listens for signals.
    """

    def __init__(
        self,
        config: Config,
        jvm: Jvm,
        *,
        names: list[str],
        once: bool,
        accept_repeats: bool,
        accept_lost_input: bool = False,
        stopping: Stopping,
    ) -> None:
        self.config = config
        self.jvm = jvm
        self.names = names
        self.once = once
        self.accept_repeats = accept_repeats
        self.accept_lost_input = accept_lost_input
        self.stopping = stopping
        self.pipelines: list[Pipeline] = []
        self.claimed: list[Checkpoint] = []
        self.health = Health(config, self.pipelines)
        self.kafka = KafkaWatch(config, stopping, self.health.beat, self._note)

    def run(self) -> None:
        """Run the pipelines; raises SequencerError if one of them found a fault."""
        checkpoints = [Checkpoint.of(self.config, name) for name in self.names]
        ended: BaseException | None = None
        try:
            self._run(checkpoints)
        except BaseException as error:
            ended = error
            raise
        finally:
            try:
                self._note(*farewell(ended))
            finally:
                for checkpoint in checkpoints:
                    checkpoint.release()
        say(f"{self.config.service.name}: stopped", event="stopped")

    def _note(self, event: str, text: str, name: str = "") -> None:
        """Keep a sentence beside the state of a pipeline, or of all that are not stopped.

        Storage that does not answer for one is not asked for the others: each may take its time.
        """
        stopped = {each.name for each in self.pipelines if each.stopped_by is not None}
        for checkpoint in self.claimed:
            is_meant = checkpoint.pipeline == name or (
                not name and checkpoint.pipeline not in stopped
            )
            if is_meant and not checkpoint.last_said.note(event, self.config.hide(text)):
                return

    def _run(self, checkpoints: list[Checkpoint]) -> None:
        for line in remarks(self.config):
            say(line)
        master = self.config.spark.get("spark.master", DEFAULT_MASTER)
        # Else two copies whose files have another order could both hold some, and both be refused.
        for checkpoint in sorted(checkpoints, key=lambda each: each.pipeline):
            require_own(self.config, checkpoint)
            checkpoint.claim(self.config.service.name)
            self.claimed.append(checkpoint)
        with served(self.config, self.health, self.stopping):
            ready = self.kafka.insist(self._prepare_topics)
            if not ready or not wait_for_master(master, self.stopping, say):
                return
            with spark_session(self.config, self.jvm) as session:
                cluster = Cluster(session, self.config, say)
                if not self.kafka.insist(lambda: self._fit(session, cluster)):
                    return
                if is_local_master(master):
                    cores = session.sparkContext.defaultParallelism
                    begin_workers(session, min(cores, state_partitions(self.config, cores)))
                require_understood(session, self.config, self.names)
                pipelines = [self._pipeline(session, each) for each in checkpoints]
                self.pipelines.extend(pipelines)
                try:
                    self._work(pipelines, cluster)
                finally:
                    asked = time.monotonic()
                    self._stop(pipelines, cluster)
                for pipeline in pipelines:
                    pipeline.report(last=True)  # with the batch that ran meanwhile
                quickly = time.monotonic() - asked < ARCHIVE_AFTER_SECONDS_MAX
                if quickly and any(each.progress.batch >= 0 for each in pipelines):
                    self.jvm.worked()

    def _fit(self, session: SparkSession, cluster: Cluster) -> None:
        """Wait for executors and check them, or until asked to stop."""
        if cluster.wait_for_cores(self.stopping):
            preflight.require_fit(session, self.config, self.names, cluster, self.stopping)

    def _pipeline(self, session: SparkSession, checkpoint: Checkpoint) -> Pipeline:
        return Pipeline(
            session,
            self.config,
            checkpoint.pipeline,
            checkpoint,
            say=say,
            once=self.once,
            accept_repeats=self.accept_repeats,
            accept_lost_input=self.accept_lost_input,
        )

    def _work(self, pipelines: list[Pipeline], cluster: Cluster) -> None:
        restarts = Restarts(self.kafka, self._note, once=self.once)
        for pipeline in pipelines:
            if not restarts.begin(pipeline):
                return
        started = [each for each in pipelines if each.state_partitions and not each.ended]
        begun = {each.name: each.state_partitions for each in started}
        says_how_many = self.config.service.state_partitions is not None
        asked = state_partitions(self.config, cores=1) if says_how_many else None
        for line in cluster.misfits(begun, asked) if begun else ():
            say(line)
        self.stopping.busy = True
        say(
            f"{self.config.service.name}: ready, {count(len(begun), 'pipeline')} running; "
            "Ctrl-C or SIGTERM finishes the running batch and stops",
            event="started",
            service=self.config.service.name,
            pipelines=self.names,
        )
        self._note("started", "Ready; records are worked on.")
        gc.freeze()  # to look among all that was imported takes 70 ms, in which a batch may wait
        reported, clock = time.monotonic(), WallClock()
        while not self.stopping.is_set():
            self.health.beat()
            if set_back := clock.set_back():
                _say_set_back(set_back)
            restarts.look_after(pipelines, again=set_back > 0)
            if all(pipeline.ended for pipeline in pipelines):
                break
            if time.monotonic() - reported >= REPORT_SECONDS:
                reported = time.monotonic()
                cluster.watch()
                for pipeline in pipelines:
                    pipeline.report()
                    pipeline.report_waiting()
                    pipeline.clean_transit()
            self.stopping.wait(POLL_SECONDS)
        _require_unharmed(pipelines)

    def _prepare_topics(self) -> None:
        rights.require(self.config, self.names)  # Kafka lists no topic that a user may not see
        topics.require(self.config, self.names, inputs_only=True)
        if self.config.service.create_topics:
            known = partial(known_partitions, self.claimed)
            for name in topics.create(self.config, inputs=False, names=self.names, known=known):
                say(f"created topic {name}", event="topic-created", topic=name)
        topics.require(self.config, self.names)
        limits.require(self.config, self.names)
        for line in limits.remarks(self.config, self.names):
            say(line, event="topic-setting", level="warning")

    def _stop(self, pipelines: list[Pipeline], cluster: Cluster) -> None:
        asked = time.monotonic()
        deadline = asked + (0 if cluster.deserted else STOP_SECONDS_MAX)
        for pipeline in pipelines:
            pipeline.ask_to_stop()
        for pipeline in pipelines:
            pipeline.wait_stopped(deadline)
        marked = min(time.monotonic() + END_SECONDS_MAX, asked + MARKED_SECONDS_MAX)
        for pipeline in pipelines:
            pipeline.wait_marked(marked)


def _say_set_back(seconds: float) -> None:
    say(
        f"The clock of this host was set back by {seconds:,.0f} s, which Spark would wait for: the "
        "queries begin again. Nothing is lost.",
        event="clock-set-back",
        level="warning",
    )


def _require_unharmed(pipelines: list[Pipeline]) -> None:
    for pipeline in pipelines:
        if pipeline.stopped_by is not None:
            raise pipeline.stopped_by
