"""Reading topics from their ends: the newest records first, as far back as time allows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from streaming.arrow.key_text import escaped
from streaming.config import Config
from streaming.errors import KafkaUnavailable
from streaming.kafka import connection, topics

Place = tuple[str, int]
"""Topic and partition."""

STEP = 2_000
"""Offsets that are read at a time, before a decision whether to go farther back."""
SECONDS_MAX = 5.0
QUIET_SECONDS_MAX = 1.5
"""A step ends where so long nothing comes: its last offsets are markers of transactions."""
FETCH = {
    "fetch.wait.max.ms": 20,
    "fetch.message.max.bytes": 1_048_576,
    "queued.max.messages.kbytes": 8_192,
    "enable.partition.eof": True,
}


@dataclass(frozen=True, slots=True)
class Found:
    """A record as it stands in a topic; ``timestamp`` in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def place(self) -> str:
        """Topic, partition and offset, as commands have them."""
        return f"{self.topic}/{self.partition}@{self.offset}"

    def header(self, name: str) -> bytes | None:
        """Return the value of the last header of this name; None where there is none."""
        return next((value for each, value in reversed(self.headers) if each == name), None)

    def text(self, name: str) -> str:
        """Return a header's value for people; empty where there is none."""
        value = self.header(name)
        return "" if value is None else escaped(value)


@dataclass
class Search:
    """What was found, oldest first in each partition, and how far back was looked.

    ``looked``: for each topic and partition the first offset that was read and the end.
    """

    records: list[Found] = field(default_factory=list)
    looked: dict[Place, tuple[int, int]] = field(default_factory=dict)
    is_whole: bool = True

    @property
    def offsets(self) -> int:
        """How many offsets were looked at."""
        return sum(end - first for first, end in self.looked.values())


def search(
    config: Config,
    names: Iterable[str],
    wanted: Callable[[Found], bool],
    most: int,
    *,
    seconds_max: float = SECONDS_MAX,
    enough: Callable[[Sequence[Found]], bool] | None = None,
) -> Search:
    """Find up to ``most`` records of each partition that are ``wanted``, the newest ones.

    Reading stops after about ``seconds_max``, or where the records found so far are ``enough``;
    `Search.is_whole` says whether it came to the beginnings or found them. Raises KafkaUnavailable,
    and ConfigError where a topic is missing.
    """
    counts = topics.partitions(config, names)
    places = [(name, number) for name, count in counts.items() for number in range(count)]
    deadline = time.monotonic() + seconds_max
    with _reader(config) as consumer:
        bounds = {place: _bounds(consumer, place) for place in places}
        result = Search(looked={place: (end, end) for place, (_, end) in bounds.items()})
        found: dict[Place, list[Found]] = {place: [] for place in places}
        step = STEP
        while True:
            began = time.monotonic()
            parts = {}
            for place, (first, _) in bounds.items():
                at = result.looked[place][0]
                if at > first and len(found[place]) < most:
                    parts[place] = (max(first, at - step), at)
            if enough is not None and enough([each for part in found.values() for each in part]):
                break
            if not parts or began > deadline:
                result.is_whole = not parts
                break
            older: dict[Place, list[Found]] = {place: [] for place in parts}
            for record in _between(consumer, parts):
                if wanted(record):
                    older[record.topic, record.partition].append(record)
            for place, (begin, _) in parts.items():
                found[place] = older[place] + found[place]
                result.looked[place] = (begin, bounds[place][1])
            ended = time.monotonic()
            if deadline - ended > 4 * (ended - began):  # twice as many take twice as long
                step *= 2
    result.records = [record for each in found.values() for record in each[-most:]]
    return result


def at_place(config: Config, topic: str, partition: int, offset: int) -> Found | None:
    """Return the record at a place; None where there is none (deleted, a marker, not written)."""
    if partition >= topics.partitions(config, [topic])[topic]:
        return None
    with _reader(config) as consumer:
        return next(_between(consumer, {(topic, partition): (offset, offset + 1)}), None)


@contextlib.contextmanager
def _reader(config: Config) -> Iterator[Any]:
    """A consumer; errors of librdkafka while it is used become ours."""
    from confluent_kafka import KafkaException  # noqa: PLC0415  (a quick --help)

    consumer = connection.reader(config, "console", **FETCH)
    try:
        yield consumer
    except KafkaException as error:
        raise KafkaUnavailable(
            config.hide(f"Reading failed: {connection.reason(error)}."),
            "Nothing was changed.",
            "Look at the brokers, and at this user's right to read the topics.",
        ) from error
    finally:
        consumer.close()


def _bounds(consumer: Any, place: Place) -> tuple[int, int]:
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    first, end = consumer.get_watermark_offsets(TopicPartition(*place), timeout=SECONDS_MAX)
    return first, end


def _between(consumer: Any, parts: dict[Place, tuple[int, int]]) -> Iterator[Found]:
    """Read the committed records of partitions between two offsets of each."""
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    left = set(parts)
    consumer.assign([TopicPartition(*place, begin) for place, (begin, _) in parts.items()])
    moved = time.monotonic()
    while left and time.monotonic() - moved < QUIET_SECONDS_MAX:
        messages = consumer.consume(500, 0.1)
        moved = time.monotonic() if messages else moved
        for message in messages:
            place = (message.topic(), message.partition())
            if place not in left:
                continue
            if connection.is_end(message) or message.offset() >= parts[place][1]:
                left.discard(place)
            elif connection.is_record(message):
                yield _found(message)


def _found(message: Any) -> Found:
    return Found(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )
