"""The lag of pipelines, looked at now and then: a request for metrics does not wait."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from streaming.errors import SequencerError
from streaming.kafka import topics
from streaming.kafka.lag import Lag
from streaming.logs import say
from streaming.places import TopicPartition
from streaming.service.offsets import offsets_of

if TYPE_CHECKING:
    from streaming.service.pipeline import Pipeline

EVERY_SECONDS = 5.0
BLIND_SECONDS = 30.0
"""If looks at the topics have failed for longer, the lag is not known."""
MARKS_MAX = 64
"""This many ends of a partition are kept; of more, each second one is given the time before it."""

Offsets = Mapping[str, Mapping[str, int]]


class Backlog:
    """Ends of a pipeline's partitions, and when each was first seen.

    It grows old by itself: what it says is true also while nothing is read. ``looked``: when the
    ends were seen last, at first when looking began (s; inf: nobody looks yet).

    The watching thread writes, request threads read, both under ``_lock``.
    """

    def __init__(self, looked: float = math.inf) -> None:
        self._lock = threading.Lock()
        self._marks: dict[TopicPartition, list[tuple[int, float]]] = {}
        self._read: Offsets | None = None
        self._begins: Mapping[TopicPartition, int] = {}
        self._looked = looked
        self._has_failed = False

    @property
    def is_new(self) -> bool:
        """Whether it is not known yet how far batches have read."""
        return self._read is None

    def is_blind(self, now: float) -> bool:
        """Whether looks fail, and the last that did not is too old for the lag to be known."""
        return self._has_failed and now - self._looked > BLIND_SECONDS

    def fail(self) -> None:
        """Note that the ends could not be seen."""
        self._has_failed = True

    def knows(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether it is known how far these were read, or where they begin."""
        return all(self._offset(each, -1) >= 0 for each in partitions)

    def begin_at(self, begins: Mapping[TopicPartition, int]) -> None:
        """Note where partitions begin of which nothing was read yet."""
        with self._lock:
            self._begins = begins

    def see(self, ends: Mapping[TopicPartition, int], now: float) -> None:
        """Note ends that were seen at a time (s)."""
        with self._lock:
            self._looked, self._has_failed = now, False
            for partition, newest in ends.items():
                marks = self._marks.setdefault(partition, [])
                if marks and newest < marks[-1][0]:
                    marks.clear()  # the topic was made again
                if not marks or newest > marks[-1][0]:
                    marks.append((newest, now))
                if len(marks) > MARKS_MAX:
                    pairs = zip(marks[::2], marks[1::2], strict=False)
                    odd = marks[-1:] if len(marks) % 2 else []
                    marks[:] = [(end, at) for (_, at), (end, _) in pairs] + odd

    def read(self, offsets: Offsets) -> None:
        """Note how far batches have read."""
        with self._lock:
            self._read = offsets
            for partition, marks in self._marks.items():
                done = self._offset(partition)
                while len(marks) > 1 and marks[0][0] <= done:
                    marks.pop(0)

    def lag(self, now: float) -> Lag | None:
        """Return the lag at a time; None where nothing was seen yet.

        While the ends cannot be seen, records may have arrived right after the last look, so its
        seconds count from there: they are the longest that it can be. Without that, the ends of
        before, which the reading overtakes, would show no lag for ever.
        """
        with self._lock:
            is_blind = self.is_blind(now)
            records, since = 0, self._looked if is_blind else now
            for partition, marks in self._marks.items():
                done = self._offset(partition)
                records += max(marks[-1][0] - done, 0)
                since = min([since, *(at for end, at in marks if end > done)])
            return Lag(records, now - since) if self._marks or is_blind else None

    def _offset(self, partition: TopicPartition, unknown: int = 0) -> int:
        read = (self._read or {}).get(partition[0], {}).get(str(partition[1]))
        return self._begins.get(partition, unknown) if read is None else read


class LagWatch(threading.Thread):
    """Keeps the lag of each pipeline, and says when it is not known for a while, and why.

    Its looks are made over connections of their own, so they may fail while those of the pipelines
    still stand, a week after a password was changed for instance. Only this thread adds to
    ``_backlogs``; request threads read it. ``_blind``: the pipelines of which that was said.
    """

    def __init__(self, pipelines: list[Pipeline]) -> None:
        super().__init__(daemon=True)
        self.pipelines = pipelines
        self._backlogs: dict[str, Backlog] = {}
        self._blind: set[str] = set()
        self._ended = threading.Event()

    def of(self, name: str) -> Lag | None:
        """Return the lag of a pipeline now; None before the first look."""
        backlog = self._backlogs.get(name)
        if backlog is None:
            return None
        for pipeline in self.pipelines:
            if pipeline.name == name:
                self._take_report(pipeline, backlog)
        return backlog.lag(time.monotonic())

    def run(self) -> None:
        """Look every few seconds, until the end."""
        while not self._ended.wait(EVERY_SECONDS):
            for pipeline in list(self.pipelines):
                try:
                    self._look_at(pipeline)
                except Exception as error:  # noqa: BLE001  (Kafka is away, or the storage)
                    pipeline.config.renew()  # a password in a file may be another one now
                    self._note_failure(pipeline, error)
                else:
                    self._note_success(pipeline)

    def end(self) -> None:
        """Look no more."""
        self._ended.set()

    def _look_at(self, pipeline: Pipeline) -> None:
        backlog = self._backlogs.setdefault(pipeline.name, Backlog(time.monotonic()))
        if backlog.is_new:
            backlog.read(pipeline.checkpoint.read_up_to())
        self._take_report(pipeline, backlog)
        settings = pipeline.config.pipelines[pipeline.name]
        names = (*settings.input, settings.commands)
        # The service itself says once that Kafka is away.
        # What a transaction holds back that nobody ends is unread, too.
        ends = topics.ends(pipeline.config, names, announce=False, committed=False)
        if not backlog.knows(ends):
            backlog.begin_at(topics.begins(pipeline.config, names, announce=False))
        backlog.see(ends, time.monotonic())

    def _note_failure(self, pipeline: Pipeline, error: Exception) -> None:
        """Say once why the lag is not known, when it has not been for a while."""
        name = pipeline.name
        self._backlogs[name].fail()
        if name in self._blind or not self._backlogs[name].is_blind(time.monotonic()):
            return
        self._blind.add(name)
        why = f"{error!r}."
        if isinstance(error, SequencerError):
            why = f"{error.message} {error.remedy}".rstrip()
        why = pipeline.config.hide(why)
        say(
            f"{name}: how far behind it is cannot be seen; sequencer_lag_seconds counts from the "
            f"last look. {why}",
            event="lag-unknown",
            level="warning",
            pipeline=name,
            reason=why,
        )

    def _note_success(self, pipeline: Pipeline) -> None:
        name = pipeline.name
        if name in self._blind:
            self._blind.remove(name)
            said = f"{name}: how far behind it is can be seen again."
            say(said, event="lag-known", pipeline=name)

    def _take_report(self, pipeline: Pipeline, backlog: Backlog) -> None:
        """Note how far the last batch read: between two looks many end."""
        if read := offsets_of(pipeline.last_report, "endOffset"):
            backlog.read(read)
