"""Reading parts of topics: one record, what lies behind a time, or the newest first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

from streaming.config import Config
from streaming.errors import KafkaUnavailable
from streaming.kafka import connection
from streaming.kafka.newest import FETCH
from streaming.kafka.reading import End, Record, TopicReader
from streaming.places import Place

CHUNK, FIRST = 5_000, 100
"""Offsets that are read at a time, where the newest come first; records, where the oldest do, of
which the first few are taken sooner."""
TAKE_SECONDS = 0.1
ANSWER_SECONDS_MAX = 60
QUIET_SECONDS_MAX = 60


@dataclass(slots=True)
class Span:
    """Offsets of a partition, half-open; ``looked`` are those that were looked at."""

    topic: str
    partition: int
    first: int
    stop: int
    looked: tuple[int, int] | None = None

    def look(self, first: int, stop: int) -> None:
        """Note that offsets were looked at."""
        before = self.looked or (first, stop)
        self.looked = (min(first, before[0]), max(stop, before[1]))

    def to_json(self) -> dict[str, Any] | None:
        """The offsets that were looked at; None where none was."""
        if self.looked is None:
            return None
        first, stop = self.looked
        return {"topic": self.topic, "partition": self.partition, "from": first, "to": stop}


class Seeker:
    """A reader of parts of topics; a context manager. ``spans``: all that was looked at.

    It judges nothing, so it reads as the other commands do, which is the quickest way.
    """

    def __init__(self, config: Config, progress: Callable[[str, int, int], None]) -> None:
        self.progress = progress
        self.spans: list[Span] = []
        self._partitions = connection.wait_for_kafka(config).topics
        self._reader = TopicReader(config, "why", settings=FETCH)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def topic_names(self) -> list[str]:
        """Return the names of all topics."""
        return list(self._partitions)

    def one(self, place: Place) -> Record | None:
        """The record at a place; None where there is none (any more)."""
        topic, partition, offset = place
        if partition >= self._partitions.get(topic, 0):
            return None
        first, stop = self._bounds(topic, partition)
        if not first <= offset < stop:
            return None
        found = next(self._records(topic, partition, offset, offset + 1), None)
        return found if found is not None and found.offset == offset else None

    def behind(self, topic: str, time_ms: int) -> list[Span]:
        """What may have records of a time or later, of each partition."""
        places = [(topic, number) for number in range(self._partitions.get(topic, 0))]
        begins = self._reader.since(places, max(0, time_ms)) if places else {}
        spans = []
        for place in places:
            first, stop = self._bounds(*place)
            begin = max(first, begins[place]) if begins[place] >= 0 else stop
            spans.append(Span(*place, begin, stop))
        self.spans += spans
        return spans

    def oldest_first(self, span: Span) -> Iterator[Record]:
        """The records of a span."""
        records = self._records(span.topic, span.partition, span.first, span.stop)
        for count, record in enumerate(records, 1):
            span.look(span.first, record.offset + 1)
            if count % CHUNK == 0:
                self.progress(f"reading {span.topic}", count, span.stop - span.first)
            yield record
        span.look(span.first, span.stop)

    def newest_first(self, span: Span, key: bytes | None = None) -> Iterator[Record]:
        """The records of a span, from its end; ``key``: those alone that have it."""
        stop, count = span.stop, 0
        while stop > span.first:
            first = max(span.first, stop - CHUNK)
            records = list(self._records(span.topic, span.partition, first, stop, key))
            span.look(first, stop)
            count += len(records)
            self.progress(f"reading {span.topic}", count, span.stop - span.first)
            yield from reversed(records)
            stop = first

    def _bounds(self, topic: str, partition: int) -> tuple[int, int]:
        return self._reader.bounds((topic, partition), ANSWER_SECONDS_MAX)

    def _records(
        self, topic: str, partition: int, first: int, stop: int, key: bytes | None = None
    ) -> Iterator[Record]:
        if first >= stop:
            return
        self._reader.assign({(topic, partition): first})
        moved, remaining, most = time.monotonic(), stop - first, FIRST
        while remaining > 0:
            taken, last = self._take(min(remaining, most, CHUNK), key)
            most *= 4
            now = time.monotonic()
            moved = now if taken or last >= 0 else moved
            if now - moved > QUIET_SECONDS_MAX:
                raise KafkaUnavailable(
                    f"{topic} could not be read: nothing comes.",
                    "Nothing was found.",
                    "Run it again when Kafka answers.",
                )
            for each in taken:
                if isinstance(each, End) or each.offset >= stop:
                    return
                yield each
            remaining = stop - last - 1 if last >= 0 else remaining

    def _take(self, most: int, key: bytes | None) -> tuple[list[Record | End], int]:
        """The next records, and the last offset that was looked at; -1 where nothing came."""
        if key is not None:
            return self._reader.take_of(key, TAKE_SECONDS, most)
        taken = self._reader.take(TAKE_SECONDS, most)
        return taken, max((each.offset for each in taken if isinstance(each, Record)), default=-1)
