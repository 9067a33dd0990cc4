"""Reading parts of topics: one record, what lies behind a time, or the newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from streaming.config import Config
from streaming.errors import KafkaUnavailable
from streaming.verify.added import Place
from streaming.verify.records import Record, Topics, as_record

CHUNK = 5_000
"""Offsets that are read at a time, where the newest come first."""
POLLS_MAX = 120


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


class Seeker(Topics):
    """A reader of parts of topics; a context manager. ``spans``: all that was looked at."""

    def __init__(self, config: Config, progress: Callable[[str, int], None]) -> None:
        super().__init__(config, progress)
        self.spans: list[Span] = []

    def one(self, place: Place) -> Record | None:
        """The record at a place; None where there is none (any more)."""
        topic, partition, offset = place
        if partition >= self.partitions(topic):
            return None
        first, stop = self._bounds(topic, partition)
        if not first <= offset < stop:
            return None
        found = next(self._records(topic, partition, offset, offset + 1), None)
        return found if found is not None and found.offset == offset else None

    def behind(self, topic: str, time_ms: int) -> list[Span]:
        """What may have records of a time or later, of each partition."""
        from kafka import TopicPartition  # noqa: PLC0415  (a quick --help)

        numbers = range(self.partitions(topic))
        wanted = {TopicPartition(topic, number): max(0, time_ms) for number in numbers}
        found = self._consumer.offsets_for_times(wanted) if wanted else {}
        spans = []
        for place, there in found.items():
            first, stop = self._bounds(topic, place.partition)
            begin = stop if there is None else max(first, there.offset)
            spans.append(Span(topic, place.partition, begin, stop))
        self.spans += spans
        return sorted(spans, key=lambda span: span.partition)

    def oldest_first(self, span: Span) -> Iterator[Record]:
        """The records of a span."""
        records = self._records(span.topic, span.partition, span.first, span.stop)
        for count, record in enumerate(records, 1):
            span.look(span.first, record.offset + 1)
            if count % CHUNK == 0:
                self.progress(span.topic, count)
            yield record
        span.look(span.first, span.stop)

    def newest_first(self, span: Span) -> Iterator[Record]:
        """The records of a span, from its end."""
        stop, count = span.stop, 0
        while stop > span.first:
            first = max(span.first, stop - CHUNK)
            records = list(self._records(span.topic, span.partition, first, stop))
            span.look(first, stop)
            count += len(records)
            self.progress(span.topic, count)
            yield from reversed(records)
            stop = first

    def _bounds(self, topic: str, partition: int) -> tuple[int, int]:
        from kafka import TopicPartition  # noqa: PLC0415

        place = TopicPartition(topic, partition)
        first = self._consumer.beginning_offsets([place])[place]
        return int(first), int(self._consumer.end_offsets([place])[place])

    def _records(self, topic: str, partition: int, first: int, stop: int) -> Iterator[Record]:
        from kafka import TopicPartition  # noqa: PLC0415

        if first >= stop:
            return
        place = TopicPartition(topic, partition)
        self._consumer.assign([place])
        self._consumer.seek(place, first)
        silent = 0
        while self._consumer.position(place) < stop:
            polled = self._consumer.poll(timeout_ms=500).get(place, [])
            silent = 0 if polled else silent + 1
            if silent > POLLS_MAX:
                raise KafkaUnavailable(f"{topic} could not be read: nothing comes.")
            for message in polled:
                if message.offset >= stop:
                    return
                yield as_record(message)
