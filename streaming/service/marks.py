"""Progress marks: how far a reader of an output partition has got everything.

A mark is a record of the topic `<pipeline>.progress` (compacted; its key is the output partition),
written when all transactions of a batch have committed:

    {"output_end": 812, "inputs": {"trades.in": {"0": 1202, "1": 644}}, "read_until_ms": …,
     "caught_up_ms": null, "oldest_held_ms": null, "at": "2026-11-24T03:12:55.120Z"}

All deliveries of records below ``inputs`` lie below ``output_end``, but for records of
``oldest_held_ms`` and later, which are held or in transit. A mark stays true for ever.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from kafka.errors import KafkaError

from streaming.arrow.output import at
from streaming.arrow.schemas import HEADERS
from streaming.arrow.totals import Totals
from streaming.config import Config
from streaming.disciplines.plan import Plan
from streaming.errors import SequencerError
from streaming.kafka import client_settings
from streaming.kafka.choice import brokers_of, own_settings
from streaming.service.progress import Progress
from streaming.sink import failures
from streaming.sink.producer import BatchProducer
from streaming.sink.refusals import RecordsRefused
from streaming.source.positions import Log, logs_in, offsets_in
from streaming.spark.spark_files import SparkFiles
from streaming.wire.bounds import LATEST, Bounds, BoundsReader

EVERY_SECONDS, IDLE_SECONDS = 1.0, 10.0
"""A mark at most so often, and again while nothing comes."""
END_SECONDS_MAX = 15.0
"""How long a stop waits for the last marks, of all pipelines together."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a batch: the inputs' next offsets, and `Totals.read_ms`, `Totals.oldest_ms`.

    ``written``: by output partition, the offset behind what is known to be written; ``found``: how
    often a batch was found written, of which that is not known. ``logs``: what the offsets are
    offsets of.
    """

    inputs: Mapping[str, Mapping[str, int]]
    read_ms: Mapping[str, int]
    oldest_ms: Mapping[str, int]
    written: Mapping[str, int] = field(default_factory=dict)
    found: int = 0
    logs: Mapping[str, Log] = field(default_factory=dict)


def done_by(
    logged: bytes, totals: Totals, transit_ms: int | None, inputs: tuple[str, ...]
) -> Done | None:
    """Return the result of a batch; None where a shard's oldest record is not known.

    ``logged``: the batch in Spark's offset log, whose first two lines are not of sources.
    ``transit_ms``: the oldest record on its way between shards.
    """
    if totals.oldest_ms is None:
        return None
    offsets: dict[str, dict[str, int]] = {}
    logs: dict[str, Log] = {}
    for line in logged.decode().splitlines()[2:]:
        source = json.loads(line) if line.startswith("{") else {}
        offsets |= offsets_in(source)
        logs |= logs_in(source)
    read = {topic: offsets.get(topic, {}) for topic in inputs}
    anywhere = [time for time in (transit_ms, totals.oldest_ms.get("")) if time is not None]
    oldest = totals.oldest_ms | ({"": min(anywhere)} if anywhere else {})
    return Done(read, totals.read_ms, oldest, logs=logs)


def marks(done: Done, ends: Bounds, output: str, now_ms: int) -> dict[str, dict[str, Any]]:
    """Return the mark of each output partition; none while nothing can be promised.

    ``ends``: of inputs and output, as they are after the batch. A partition of which no record was
    read holds nothing back if it has none: whatever comes there is later than all that was read.
    """
    times, caught_up = [], True
    for topic, of in done.inputs.items():
        for partition, end in ends[topic].items():
            time_ms = done.read_ms.get(f"{topic}/{partition}")
            is_read = end.offset <= of.get(str(partition), 0)
            caught_up = caught_up and is_read
            if time_ms is not None:
                times.append(time_ms)
            elif not is_read:
                return {}
    if not times:
        return {}
    return {
        str(partition): {
            # A leader that is deposed, and does not know, names an end of before.
            "output_end": max(end.offset, done.written.get(str(partition), 0)),
            "inputs": done.inputs,
            "read_until_ms": min(times),
            "caught_up_ms": max(times) if caught_up else None,
            "oldest_held_ms": min(
                (done.oldest_ms[at] for at in ("", str(partition)) if at in done.oldest_ms),
                default=None,
            ),
            "at": at(now_ms),
        }
        for partition, end in sorted(ends[output].items())
    }


class MarksWriter:
    """Writes a pipeline's marks, in a thread of its own: no batch waits for them.

    The query's thread sets ``_done`` (:meth:`note`), one reference at a time; this one's thread
    takes the latest, and has producer and bounds to itself. ``before``: the writer of the query
    before; its thread ends first, as both write over the same connections. ``config``: from which
    the settings of connections are taken after a failure; None: those of the plan stay.
    """

    def __init__(
        self,
        plan: Plan,
        checkpoint: SparkFiles,
        progress: Progress,
        say: Callable[..., None],
        before: MarksWriter | None = None,
        config: Config | None = None,
    ) -> None:
        self.plan = plan
        self.checkpoint = checkpoint
        self.progress = progress
        self.say = say
        self._figures_lost = not progress.shards and checkpoint.done() >= 0
        self._done: Done | None = None
        self._ending = threading.Event()
        self._refused = False
        self._asked_for: int | None = None
        self._user = f"{plan.pipeline} marks"
        self._config = config
        self._words: Mapping[str, Any] = plan.producer
        self._producer: BatchProducer | None = None
        self._bounds: BoundsReader | None = None
        self._before = before
        if before is not None:
            before.ask_to_stop()
        self._thread = threading.Thread(
            target=self._run, name=f"{plan.pipeline} marks", daemon=True
        )
        self._thread.start()

    def begin(self, batch: int) -> None:
        """Mark the last batch before this start, if it is known to be whole; -1: it is not."""
        if batch >= 0 and not self.progress.totals().transit:
            self.progress.transit_ms = None
            self.note(batch)

    def note(self, batch: int) -> None:
        """Mark a batch; all its transactions have committed.

        If the figures of a checkpoint were lost, not before each shard has had one.
        """
        logged, progress = self.checkpoint.logged_if_kept(batch), self.progress
        if logged is None or (self._figures_lost and len(progress.shards) < self.plan.shards):
            return
        done = done_by(logged, progress.totals(), progress.transit_ms, self.plan.inputs)
        if done is not None:
            written = progress.written
            self._done = replace(done, written=written.ends, found=written.found)

    def ask_to_stop(self) -> None:
        """Let it write what is not written yet, and end."""
        self._ending.set()

    def wait_stopped(self, deadline: float | None = None) -> None:
        """Wait until it has ended, or until the deadline (`time.monotonic`)."""
        self._thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        if self._before is not None:
            self._before.wait_stopped()
            self._before = None
            if self._ending.is_set():
                return  # the next one has waited, too, and has the latest
        written: Done | None = None
        last = time.monotonic() - IDLE_SECONDS
        while True:
            ending = self._ending.wait(EVERY_SECONDS)
            done, since = self._done, time.monotonic() - last
            is_news = done is not written
            if done is not None and (is_news or since >= IDLE_SECONDS):
                time.sleep(max(0.0, EVERY_SECONDS - since))
                if self._write(done):
                    written, last = done, time.monotonic()
            if ending:
                return

    def _write(self, done: Done) -> bool:
        """Write marks; False where that failed, which is said once."""
        try:
            producer, bounds = self._connected()
            with producer.errors("write progress marks"):
                for topic, log in done.logs.items():
                    epochs = {int(at): epoch for at, epoch in log.epochs.items()}
                    bounds.brokers.topology.require(topic, log.id, epochs)
                # An input that was given a partition is not read to its end. Of what was written
                # by others, only leaders know; a broker that is cut off takes itself for one.
                bounds.refresh(of_most=done.found != self._asked_for)
                self._asked_for = done.found
                found = marks(done, bounds(LATEST), self.plan.output, round(time.time() * 1000))
                if found:
                    producer.write(self.plan.progress, *_records(found))
                    producer.finish()
        except Exception as error:  # noqa: BLE001  (said; whatever it is, the next mark may go)
            self._producer = self._asked_for = None
            if not isinstance(error, KafkaError | SequencerError | RecordsRefused):
                with contextlib.suppress(Exception):
                    brokers_of(own_settings(self._words), self._user).reset()
            self._renew_words()
            if not self._refused:
                why = _reason(error, self.plan)
                self.say(
                    f"{self.plan.pipeline}: progress marks wait: {why}",
                    event="marks-wait",
                    level="warning",
                    pipeline=self.plan.pipeline,
                )
            self._refused = True
            return False
        self._refused = False
        return True

    def _renew_words(self) -> None:
        """Connect with the present settings from now on: a password's file may have another one.

        The query may go on for months over its connections, with the plan of its start.
        """
        if self._config is not None:
            with contextlib.suppress(SequencerError):  # a file is half written: the next time
                self._config.renew()
                self._words = client_settings.words(self._config)

    def _connected(self) -> tuple[BatchProducer, BoundsReader]:
        """The producer and what asks for ends, over connections of this thread's own."""
        plan, user = self.plan, self._user
        settings = own_settings(self._words)
        if self._producer is None or self._bounds is None:
            producer = BatchProducer(settings, None, plan.driver_id, plan.events, user)
            with producer.errors("begin to write progress marks"):
                producer.begin_session()
            topics = {*plan.inputs, plan.output}
            self._bounds = BoundsReader(brokers_of(settings, user), topics, committed=False)
            self._producer = producer
        return self._producer, self._bounds


def _reason(error: Exception, plan: Plan) -> str:
    """Return what failed, and what to do; no batch is repeated for it."""
    if isinstance(error, RecordsRefused):
        error = failures.refused(error.refusals, plan)
    if isinstance(error, SequencerError):
        return f"{error.message} {error.remedy}".rstrip()
    return f"{error}" if isinstance(error, KafkaError) else f"{type(error).__name__}: {error}"


def _records(
    found: Mapping[str, Mapping[str, Any]],
) -> tuple[pa.Table, np.ndarray[Any, np.dtype[np.int32]], list[tuple[str, pa.Array]]]:
    """Marks as `BatchProducer.write` takes them; all in one partition."""
    table = pa.table(
        {
            "key": pa.array([key.encode() for key in found], pa.binary()),
            "value": pa.array([json.dumps(each).encode() for each in found.values()], pa.binary()),
            "headers": pa.nulls(len(found), HEADERS),
        }
    )
    return table, np.zeros(len(found), np.int32), []
