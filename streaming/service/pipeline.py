"""One pipeline while it runs: its query, its status file, its failures."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from streaming import errors
from streaming.arrow.totals import Totals
from streaming.config import Config, GroupPipeline, MulticastPipeline
from streaming.config.values import SUBSCRIBER
from streaming.disciplines.plan import ChannelPlan, Plan
from streaming.errors import InputLost, JobFailed, KafkaUnavailable, SequencerError
from streaming.kafka import connection, topics
from streaming.service.checkpoint import Checkpoint, Identity
from streaming.service.planning import make_plan
from streaming.service.query import BATCH_MAX, Carrier, Progress, build, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

STOP_SECONDS_MAX = 55
IDLE_SECONDS = 0.5
MULTICASTS_MAX = 20_000
HELD_HIGH, HELD_LOW = 400_000, 150_000
"""Deliveries that wait in a multicast's state, above and below which inputs are read slowly and at
full speed again: a backlog stays in Kafka. All shards have some 100,000 on their way."""
WORKING = ("Processing new data", "No new data but cleaning up state")
"""What a query's status says while a batch runs. `isTriggerActive` is also true while it asks Kafka
for new offsets, which without a trigger interval is most of the time."""


class Pipeline:
    """Starts, watches and stops the query of one pipeline."""

    def __init__(
        self,
        session: SparkSession,
        config: Config,
        name: str,
        checkpoint: Checkpoint,
        *,
        say: Callable[[str], None],
        once: bool,
        accept_repeats: bool,
    ) -> None:
        self.session = session
        self.config = config
        self.name = name
        self.checkpoint = checkpoint
        self.say = say
        self.once = once
        self.accept_repeats = accept_repeats
        self.progress = Progress()
        self.query: StreamingQuery | None = None
        self.carrier: Carrier | None = None
        self._reported: tuple[int, ...] = ()
        self._batch_seen = -1
        self._ends: dict[tuple[str, int], int] | None = None
        self.finished = False
        self._cleaning = True
        self._cleaned: dict[int, int] = {}
        self._slow = False

    def start(self) -> None:
        """Start the query, or start it again after a failure, from its checkpoint."""
        plan = self._plan()
        status = self.checkpoint.status()
        doubtful = -1 if self.accept_repeats else self.checkpoint.batch_in_doubt()
        self.progress = Progress(in_doubt=doubtful, shards=_shards(status))
        self.carrier = Carrier(plan, self.progress, self._note)
        self.session.conf.set("spark.sql.shuffle.partitions", str(plan.state_partitions))
        options = {f"kafka.{name}": value for name, value in connection.java(self.config).items()}
        options[BATCH_MAX] = str(self._records_max())
        frame = build(self.session, plan, options)
        trigger_ms = 0 if self.once else self.config.service.trigger.ms
        self.query = start(
            frame, plan, self.checkpoint.location, self.carrier, trigger_ms=trigger_ms
        )
        self.carrier.begin(str(self.query.id))

    def _plan(self) -> Plan:
        settings = self.config.pipelines[self.name]
        wanted = self._identity()
        identity = self.checkpoint.pin(wanted)
        if isinstance(settings, GroupPipeline) and identity.groups != wanted.groups:
            self.say(
                f"pipelines.{self.name}.groups is not what the checkpoint began with; it is "
                f"passed over. Change groups by commands on {settings.commands}."
            )
        written = [name for name in settings.written.values() if SUBSCRIBER not in name]
        plan = make_plan(self.config, self.name, identity, topics.partitions(self.config, written))
        if isinstance(plan, ChannelPlan):
            plan = replace(plan, started_ms=int(time.time() * 1000))
        return plan

    def _records_max(self) -> int:
        """Input records of a batch. A multicast that has to wait does so in the state."""
        limit = self.config.service.batch_records_max
        if not isinstance(self.config.pipelines[self.name], MulticastPipeline):
            return limit
        return 1 if self._slow else min(limit, MULTICASTS_MAX)

    def changes_pace(self) -> bool:
        """Whether to read inputs slowly from now on, or at full speed again.

        Slowly while more multicasts wait than a state should keep. Spark fixes the limit when a
        query starts, so the query has to be started again.
        """
        if not isinstance(self.config.pipelines[self.name], MulticastPipeline):
            return False
        held = self.progress.totals().held
        if held >= HELD_LOW if self._slow else held <= HELD_HIGH:
            return False
        self._slow = not self._slow
        if self._slow:
            self.say(
                f"{self.name}: {held:,} deliveries wait for their turn; reading few inputs "
                f"until there are fewer than {HELD_LOW:,}"
            )
        return True

    def _identity(self) -> Identity:
        settings = self.config.pipelines[self.name]
        common: dict[str, Any] = {
            "discipline": settings.discipline,
            "shards": self.config.service.shards,
            "state_partitions": self._state_partitions(),
            "inputs": sorted(settings.input),
        }
        if isinstance(settings, GroupPipeline):
            groups = {name: sorted(members) for name, members in sorted(settings.groups.items())}
            order = settings.sender_order
            return Identity(**common, groups=groups, nodes=settings.nodes, sender_order=order)
        if isinstance(settings, MulticastPipeline):
            return Identity(**common, order=settings.order)
        labels = settings.labels.model_dump(mode="json")
        return Identity(**common, labels=labels, channel=settings.channel)

    def _state_partitions(self) -> int:
        """One for each core: more cost a commit each in every batch, fewer leave cores idle."""
        wanted = self.config.spark.get("spark.sql.shuffle.partitions")
        cores = self.session.sparkContext.defaultParallelism
        return max(1, min(self.config.service.shards, int(wanted or cores)))

    @property
    def active(self) -> bool:
        """Whether the query runs."""
        return self.query is not None and self.query.isActive

    def upstream(self, others: list[Pipeline]) -> list[Pipeline]:
        """Those of ``others`` that write what this one reads."""
        read = set(self.config.pipelines[self.name].input)
        return [
            other
            for other in others
            if other is not self and read & set(self.config.pipelines[other.name].written.values())
        ]

    def finish_when_through(self) -> None:
        """With ``--once``: stop after the batch that reaches the ends first seen here."""
        assert self.query is not None  # noqa: S101  (only called while it runs)
        settings = self.config.pipelines[self.name]
        if self._ends is None:
            read = (*settings.input, *filter(None, [getattr(settings, "commands", None)]))
            self._ends = topics.ends(self.config, read)
        last = self.query.lastProgress
        if not _reached(last, self._ends):
            return
        transit = getattr(settings, "transit", None)
        if transit is None or _reached(last, topics.ends(self.config, (transit,))):
            self.stop()
            self.finished = True

    def clean_transit(self) -> None:
        """Delete what was in transit before the last batch that is done: no restart reads it."""
        transit = getattr(self.config.pipelines[self.name], "transit", None)
        if transit is None or self.query is None or not self.query.isActive or not self._cleaning:
            return
        begin = _offsets(self.query.lastProgress, "startOffset").get(transit, {})
        wanted = {int(at): offset for at, offset in begin.items() if offset}
        if not wanted or wanted == self._cleaned:
            return
        try:
            topics.delete_before(self.config, transit, wanted)
        except KafkaUnavailable as error:
            self.say(f"{self.name}: {error}")
            self._cleaning = False  # told once; the next start tries again
        self._cleaned = wanted

    @property
    def progressed(self) -> bool:
        """Whether a batch was done since the last call."""
        done, self._batch_seen = self._batch_seen, self.progress.batch
        return self._batch_seen > done

    def failure(self) -> SequencerError:
        """Why the query stopped, as one of our errors."""
        if self.carrier is not None and self.carrier.failure is not None:
            text = str(self.carrier.failure)
        else:
            text = str(self.query.exception() if self.query is not None else "it never started")
        return as_sequencer_error(text)

    def stop(self) -> None:
        """Stop between batches."""
        self.ask_to_stop()
        self.wait_stopped(time.monotonic() + STOP_SECONDS_MAX)

    def ask_to_stop(self) -> None:
        """Let the running batch finish and begin no other."""
        if self.carrier is not None:
            self.carrier.stopping.set()

    def wait_stopped(self, deadline: float) -> None:
        """Wait for :meth:`ask_to_stop` to have its way; by force at the deadline."""
        query = self.query
        if query is None:
            return
        idle_since = None
        while query.isActive and time.monotonic() < deadline:
            busy = query.status["message"] in WORKING
            idle_since = None if busy else idle_since or time.monotonic()
            if idle_since is not None and time.monotonic() - idle_since > IDLE_SECONDS:
                break  # between batches: nothing runs that stopping could cut short
            time.sleep(0.05)
        query.stop()

    def report(self, *, last: bool = False) -> str:
        """A line on what was done, empty where nothing changed."""
        totals = self.progress.totals()
        now = (totals.seen, totals.delivered, totals.held, sum(totals.rejected.values()))
        if self.progress.batch < 0 or (now == self._reported and not last):
            return ""
        self._reported = now
        seen, delivered, held, rejected = now
        return (
            f"{self.name}: {seen:,} in, {delivered:,} delivered, {held:,} held, "
            f"{rejected:,} rejected; batch {self.progress.batch} took {self.progress.batch_ms} ms"
        )

    def _note(self, progress: Progress) -> None:
        self.checkpoint.write_status(
            {
                "pipeline": self.name,
                "discipline": self.config.pipelines[self.name].discipline,
                "query": progress.query,
                "batch": progress.batch,
                "batch_ms": progress.batch_ms,
                "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "shards": {str(shard): asdict(totals) for shard, totals in progress.shards.items()},
            }
        )


def _shards(status: dict[str, Any]) -> dict[int, Totals]:
    return {int(shard): Totals(**fields) for shard, fields in status.get("shards", {}).items()}


def _reached(progress: Any, ends: dict[tuple[str, int], int]) -> bool:
    """Whether a query's last batch ended at or beyond ``ends``."""
    if progress is None:
        return False
    found = _offsets(progress, "endOffset")
    return all(
        found.get(topic, {}).get(str(partition), 0) >= end
        for (topic, partition), end in ends.items()
    )


def _offsets(progress: Any, name: str) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition at one end of a batch, of all topics read."""
    found: dict[str, dict[str, int]] = {}
    for source in progress["sources"] if progress else ():
        if source["description"].startswith("Kafka"):
            offsets = source[name]
            found |= (json.loads(offsets) if isinstance(offsets, str) else offsets) or {}
    return found


RAISED = re.compile(r"streaming\.errors\.(\w+): (.*)")


def as_sequencer_error(text: str) -> SequencerError:
    """The error that a worker raised, out of Spark's report of it."""
    found = RAISED.findall(text)
    if found:
        name, message = found[-1]
        kind = getattr(errors, name, SequencerError)
        if name == "StateFormatError":
            return JobFailed(message)
        return kind(message)
    if "OffsetOutOfRange" in text or "KAFKA_DATA_LOSS" in text or "failOnDataLoss" in text:
        return InputLost(
            "Kafka no longer has records that this pipeline has not read yet (retention went by "
            "their timestamps, or the topic was made anew).",
            "They are lost to it; nothing was written for them.",
            "Compare the topic's first offsets with the checkpoint; to go on without them, start "
            "with a new checkpoint folder.",
        )
    if "CONCURRENT_STREAM_LOG_UPDATE" in text:
        return SequencerError("Another copy of this service wrote the checkpoint's log.")
    lines = [line for line in text.splitlines() if line.strip()]
    cause = next((line for line in reversed(lines) if line.startswith("Caused by:")), None)
    return SequencerError(f"The query stopped: {(cause or (lines or ['unknown'])[0])[:400]}.")
