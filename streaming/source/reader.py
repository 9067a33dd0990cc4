"""The offsets of a batch, for Spark's driver; and the records of a share of them, for a worker."""

from __future__ import annotations

import contextlib
import pickle
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from kafka.errors import KafkaError

from streaming.arrow.pack import TABLE_BYTES_MAX, Pack, share_row, table_bytes
from streaming.disciplines.source import SourceRows
from streaming.errors import LOOK, NOT_FINISHED, InputDamaged, InputLost, KafkaUnavailable
from streaming.kafka.choice import brokers_of, own_settings
from streaming.places import TopicPartition
from streaming.source.caught_up import CaughtUp
from streaming.source.fetching import Fetching
from streaming.source.losses import Acceptance, going_on, lost
from streaming.source.pacing import Pace
from streaming.source.positions import Position, begin_of, logs_in, offsets_in, position
from streaming.source.ranges import NEARLY, Range, limited, ranges, shared
from streaming.source.sizes import bytes_of
from streaming.source.waiting import Waiting
from streaming.source.watching import REFRESH_SECONDS, TopicWatch
from streaming.wire.admin import reason
from streaming.wire.brokers import Brokers
from streaming.wire.fetched import Unreadable, tables

if TYPE_CHECKING:
    from streaming.disciplines.plan import Plan
    from streaming.disciplines.source import Read, Reading
    from streaming.kafka.choice import ProducerSettings

LOOKS, LOOK_SECONDS, WAKING_TICKS = 4, 1.0, 2
LOOK_RECORDS, UNKNOWN_BYTES = 10_000, 100_000.0
"""How large records are is looked at where this many are left to read, or where as many as are left
would come to a batch's limit if each took this much, or what they last took: some milliseconds,
which small batches are spared."""
LOOKS_MAX = 3
"""So often a batch is made smaller, as its later records are larger."""

HERE_RECORDS, HERE_BYTES, HERE_KEPT = 20_000, 64 * 2**20, 250_000
"""All state partitions together read at most this much where it is stepped: each reads all that the
batch has, and what that costs is less than a stage of its own. Every shard is called then, and its
state goes to Python and back; so the state has at most this many entries."""

_offset_bytes: dict[TopicPartition, float] = {}
"""What an offset of each partition took in this worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Topics with their numbers; ``properties`` of the cluster are `client_settings.words`.

    ``table_bytes``: at which size a table of records is cut (`pack.table_bytes`).
    """

    topics: Mapping[str, int]
    properties: Mapping[str, Any] = field(repr=False)
    table_bytes: int = TABLE_BYTES_MAX

    def settings(self) -> ProducerSettings:
        """The settings of the service's own connections."""
        return own_settings(self.properties)

    @contextlib.contextmanager
    def errors(
        self, what: str, brokers: Brokers, effect: str = "Nothing was written."
    ) -> Iterator[None]:
        """Raise Kafka's errors as the service's."""
        try:
            yield
        except Unreadable as error:
            raise self._damaged(*error.args) from error
        except KafkaError as error:
            brokers.reset()
            said = f"{', '.join(self.topics)} {what}: {reason(error)}."
            raise KafkaUnavailable(said, effect, LOOK) from error

    def _damaged(self, number: int, partition: int, offset: int, why: object) -> InputDamaged:
        topic = next(name for name, at in self.topics.items() if at == number)
        return InputDamaged(
            f"The record batch at offset {offset} of {topic}, partition {partition}, is damaged: "
            f"{why}.",
            "Nothing was written of it, nor of what comes behind it.",
            "Let another replica of the partition be its leader, then start again; or delete the "
            "records up to it with Kafka's tools, and start with --accept-lost-input.",
        )


class KafkaReader:
    """Positions in some topics (`positions`), and what a batch reads. ``pace``: of the query."""

    def __init__(
        self,
        inputs: Inputs,
        reading: Reading,
        accepted: Acceptance | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.inputs = inputs
        self.reading = reading
        self._offset_bytes = UNKNOWN_BYTES
        self._accepted = accepted or Acceptance()
        # Connections of its own: each query has a thread that drives them.
        self.brokers = Brokers(inputs.settings().connection)
        self._watch = TopicWatch(self.brokers, inputs.topics)
        self._pace = pace or Pace()
        self._pace.readers += 1
        self._caught_up = CaughtUp(goes_on=self._pace.waits)
        self._waiting: Waiting | None = None
        self._planned: Position = {}
        self._newest: Position | None = None
        self._first: Position = {}

    def first(self) -> Position:
        """Each partition's first record; the end of what is the query's own.

        A first batch that is repeated asks again, when some may have been deleted; so its end says
        where it began.
        """
        with self._errors():
            self._first = self._watch.last() if self.reading.own else self._watch.first()
        return self._first

    def latest(self, start: Position) -> Position:
        """Where the batch ends, as :meth:`_latest`; waits for something new (`Pace`)."""
        asked = time.monotonic()
        self._pace.hold()
        found = self._latest(start)
        # A new query's first batch begins in any case; and of what is lost nothing is done.
        if start is not self._first and begin_of(start, found) == offsets_in(start):
            self._pace.note_done(offsets_in(start))
        while found is start and (remaining := self._pace.left(asked)):
            self._wait(start, min(remaining, REFRESH_SECONDS))
            found = self._latest(start)
        end = self._caught_up.noted(start, found, self._newest or found, self._looked)
        self._planned = self._planned if end is start else end
        return end

    def _wait(self, start: Position, seconds: float) -> None:
        if self._waiting is None:
            self._waiting = Waiting(Brokers(self.inputs.settings().connection))
        self._waiting(start, seconds, self._pace.ended)

    def _latest(self, start: Position) -> Position:
        """Where the batch ends, ``start`` where there is nothing new.

        InputLost where what comes next is gone, or what was read before is not what is there now:
        its topic was made again, or its log was cut back. (New leaders may know less for a moment.)
        """
        self._looked = time.time()
        for _ in range(LOOKS):
            with self._errors():
                found = self._watch.look(start)
            if found is None:
                return start
            whole, losses = found
            self._newest = whole
            if not losses:
                break
            self._watch.look_closely()
            time.sleep(LOOK_SECONDS)
        if not self._accepted.covers(losses):
            raise lost(losses)
        self._accepted.topics.difference_update(self.inputs.topics)
        if offsets_in(whole) == offsets_in(start) and not losses:
            return start
        is_first = bool(self._first) and offsets_in(start) == offsets_in(self._first)
        begin = offsets_in(start) if is_first else {}
        return self._limited(start, going_on(whole, losses, begin))

    def newest(self) -> Position | None:
        """Where the topics ended at the last look that found something; None before the first."""
        return self._newest

    def rows(self, start: Position, end: Position) -> SourceRows:
        """What a batch reads: few records where they are stepped, more in tasks of their own."""
        there, repeated = self._there(start, end), end != self._planned
        if not repeated:  # Spark also asks, at a start, for what was done
            self._pace.begin()
        if not there:
            return SourceRows()
        if self._are_few(there):
            return SourceRows(share_row(pickle.dumps((there, repeated))))
        tasks = self.reading.tasks
        return SourceRows(
            shares=[pickle.dumps((share, repeated)) for share in shared(there, tasks)]
        )

    def _are_few(self, there: list[Range]) -> bool:
        """Return whether every state partition may read all of it, and keep what is its own."""
        tasks, keys = self.reading.tasks, self.reading.keys
        records = sum(map(len, there))
        if not keys or len(keys) % tasks or records * tasks > HERE_RECORDS:
            return False
        if self.reading.limits.kept() > HERE_KEPT:
            return False
        size = self._offset_bytes
        if records * tasks * size > HERE_BYTES:
            size = self._offset_bytes_or(size, there)
        return records * tasks * size <= HERE_BYTES

    def _look_at_sizes(self, there: list[Range], share: float = 0.0) -> float:
        """Estimate, and note, the bytes of an offset in these ranges (`bytes_of`)."""
        with self.inputs.errors("did not say how large its records are", self.brokers):
            size = bytes_of(self.brokers, there, share)
        self._offset_bytes = size / sum(map(len, there))
        return self._offset_bytes

    def _offset_bytes_or(self, otherwise: float, there: list[Range], share: float = 0.0) -> float:
        try:
            return self._look_at_sizes(there, share)
        except (InputDamaged, InputLost):  # what was done is not read, nor may a smaller batch be
            return otherwise

    def close(self) -> None:
        """Close the connections."""
        self.brokers.close()
        if self._waiting is not None:
            self._waiting.brokers.close()

    def _limited(self, start: Position, whole: Position) -> Position:
        """Where a batch ends that reads as much of it as memory is to hold."""
        return self._cut(start, whole, self._records_max(start, whole))

    def _cut(self, start: Position, whole: Position, records_max: int) -> Position:
        offsets = limited(begin_of(start, whole), offsets_in(whole), records_max)
        return position(offsets, logs_in(whole))

    def _there(self, start: Position, end: Position) -> list[Range]:
        return ranges(begin_of(start, end), offsets_in(end), self.inputs.topics, logs_in(end))

    def _records_max(self, start: Position, whole: Position) -> int:
        """How many records a batch reads of what is there (0: all), as memory is to hold it.

        By its first records, then also by those in its midst and at its end, which may be larger.
        """
        most, size_max = self.reading.limits.records_now(), self.reading.limits.size_now()
        there = self._there(start, whole)
        count = sum(map(len, there))
        may_be = count * max(UNKNOWN_BYTES, self._offset_bytes)
        if not size_max or not count or (count < LOOK_RECORDS and may_be < size_max):
            return most
        first = self._look_at_sizes(there)
        count = min(filter(None, (count, most, max(int(size_max / first), 1))))
        for _ in range(LOOKS_MAX if count > 1 else 0):
            chosen = self._there(start, self._cut(start, whole, count))
            later = [self._offset_bytes_or(first, chosen, share) for share in (0.5, 1.0)]
            self._offset_bytes = (first + sum(later)) / 3
            if count * self._offset_bytes <= size_max * NEARLY:
                break
            count = max(int(size_max / self._offset_bytes), 1)
        return count

    def _errors(self) -> contextlib.AbstractContextManager[None]:
        return self.inputs.errors("did not say how much there is", self.brokers)


class Ticks:
    """Nothing to read, but something new where a timer is due: a batch runs also without records.

    Spark's own batches without data do not begin before the first batch with data after a start,
    and then follow each other without a pause.

    In the first batches of a query every shard is stepped: other rules than those that its timer
    was set by may count now. So it is in the first one after the clock was set back, when timers
    of the time before would not fire: a repeated batch, which steps every shard, would do more.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._pace.ticks = self._pace.is_waking = True
        self._began: int | None = None
        self._planned: int | None = None
        self._looked_s = 0.0
        self._is_back = False
        self._last = (-1, False)

    def first(self) -> int:
        """Return the first tick."""
        return 0

    def latest(self, start: int) -> int:
        """Return the next tick if it is due."""
        self._look_at_clock()
        if not self._pace.tick():
            return start
        self._planned = start + 1
        return self._planned

    def newest(self) -> None:
        """Return None: ticks have no end."""

    def rows(self, _start: int, end: int) -> SourceRows:
        """Return nothing, but in some batches a row without records for every shard; see above.

        A query's first may be a batch that is repeated, which has the rules that it began with; or
        the last one that was done, which Spark asks for again at the start.
        """
        if end == self._planned:
            self._pace.begin()
        self._began = end if self._began is None else self._began
        self._pace.is_waking = end + 1 - self._began < WAKING_TICKS
        if end != self._last[0]:  # Spark may ask again
            self._last, self._is_back = (end, self._is_back), False
        self._look_at_clock()
        is_quiet = end - self._began >= WAKING_TICKS and not self._last[1]
        return SourceRows(None if is_quiet else b"")

    def close(self) -> None:
        """Nothing to do."""

    def _look_at_clock(self) -> None:
        now_s = time.time()
        self._is_back |= now_s < self._looked_s
        self._looked_s = now_s


def inputs_of(plan: Plan, reading: Reading) -> Inputs:
    """What a source of a pipeline reads."""
    size = table_bytes(plan.shards, in_files=bool(plan.large_rows), for_all=plan.sees_all)
    return Inputs(topics=reading.topics, properties=plan.producer, table_bytes=size)


def rows_of_shares(batches: Iterator[pa.RecordBatch], read: Read) -> Iterator[pa.RecordBatch]:
    """What is read of shares, which are rows of batches with one column."""
    return chain.from_iterable(
        read(share) for batch in batches for share in batch.column(0).to_pylist()
    )


def rows_of_share(
    share: bytes, inputs: Inputs, schema: pa.Schema, making: Pack
) -> Iterator[pa.RecordBatch]:
    """What ``making`` makes of the records of a share, as rows of ``schema``.

    SequencerError where they cannot be read.
    """
    brokers = brokers_of(inputs.settings())
    with inputs.errors("could not be read", brokers, NOT_FINISHED):
        wanted, repeated = pickle.loads(share)  # noqa: S301  (the driver's own)
        fetched = Fetching(brokers, wanted, _offset_bytes, repeated=repeated)
        for table in tables(fetched, inputs.table_bytes, schema):
            yield making(table)
