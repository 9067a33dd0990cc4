"""The reader of topics for all commands beside the service.

Commands differ in their first offsets, their waits and their errors; reading records is the same.
(`verify` has a reader of its own, as it judges independently.)
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from streaming.arrow.key_text import escaped
from streaming.config import Config
from streaming.errors import KafkaUnavailable
from streaming.kafka import connection, topics
from streaming.kafka.header_names import headers_of
from streaming.places import Place, TopicPartition

BEGINNING = -2
"""In place of an offset: the first existing one."""

ENDS = {"enable.partition.eof": True}
"""The setting of a reader that reports when a partition has no more records (:class:`End`)."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a topic; ``timestamp`` in ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def home(self) -> TopicPartition:
        """Return topic and partition."""
        return self.topic, self.partition

    @property
    def place(self) -> Place:
        """Return topic, partition and offset."""
        return self.topic, self.partition, self.offset

    @property
    def place_text(self) -> str:
        """Return topic, partition and offset in the form of commands."""
        return f"{self.topic}/{self.partition}@{self.offset}"

    @property
    def content(self) -> tuple[Any, ...]:
        """Return all but the place."""
        return self.key, self.value, self.headers, self.timestamp

    def header(self, name: str) -> bytes | None:
        """Return the value of the last header ``name``; None where there is none, or it is null."""
        return next((value for each, value in reversed(self.headers) if each == name), None)

    def has_header(self, name: str) -> bool:
        """Return whether there is a header ``name``, be its value null."""
        return any(each == name for each, _ in self.headers)

    def text(self, name: str) -> str:
        """Return a header's value for people; empty where there is none."""
        value = self.header(name)
        return "" if value is None else escaped(value)

    def __str__(self) -> str:
        key = "null" if self.key is None else escaped(self.key)
        return f"{self.place_text} (key {key})"


@dataclass(frozen=True, slots=True)
class End:
    """A partition has no more records for now."""

    home: TopicPartition


class TopicReader:
    """Reads committed records of the partitions that it is assigned.

    It joins no group and commits nothing. Each method raises KafkaUnavailable if Kafka fails, with
    ``failure``, the reason, ``effect`` and ``remedy``. ``settings``: librdkafka's, besides those of
    the configuration. Close it, or use it in a `with`.
    """

    def __init__(
        self,
        config: Config,
        name: str,
        failure: str = "Reading failed",
        effect: str = "Nothing was changed.",
        remedy: str = "Look at the brokers, and at this user's right to read the topics.",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.config = config
        self.failure, self.effect, self.remedy = failure, effect, remedy
        self._consumer = connection.reader(config, name, **(settings or {}))
        self._assigned: set[TopicPartition] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def assign(self, starts: Mapping[TopicPartition, int]) -> None:
        """Read these partitions from these offsets on, in place of those before."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415  (a quick --help)

        self._assigned = {*starts}
        with self._errors():
            self._consumer.assign(
                [TopicPartition(*partition, at) for partition, at in starts.items()]
            )

    def take(self, limit_s: float, most: int = 1) -> list[Record | End]:
        """Return up to ``most`` records and ends, in the order of each partition.

        The list is empty if nothing arrives within ``limit_s``.
        """
        deadline = time.monotonic() + limit_s
        with self._errors():
            while True:
                left_s = max(deadline - time.monotonic(), 0)
                messages = self._messages(left_s, most)
                found: list[Record | End] = []
                for message in messages:
                    if self._is_end(message):
                        found.append(End((message.topic(), message.partition())))
                    elif self._is_record(message):
                        found.append(_record(message))
                if found or not messages:  # else only errors that do not matter: read on
                    return found

    def take_of(
        self, key: bytes | None, limit_s: float, most: int
    ) -> tuple[list[Record | End], int]:
        """Return the next ``most`` records' ones with a key, ends, and the last offset of all.

        The offset is -1 if nothing arrived within ``limit_s``. Faster than `take`: messages with
        other keys do not become records.
        """
        found: list[Record | End] = []
        last = -1
        with self._errors():
            for message in self._messages(limit_s, most):
                if self._is_end(message):
                    found.append(End((message.topic(), message.partition())))
                elif self._is_record(message):
                    last = message.offset()
                    if message.key() == key:
                        found.append(_record(message))
        return found, last

    def _messages(self, limit_s: float, most: int) -> list[Any]:
        if most > 1:
            return list(self._consumer.consume(most, limit_s))
        message = self._consumer.poll(limit_s)
        return [] if message is None else [message]

    def _is_end(self, message: Any) -> bool:
        return connection.is_end(message) and self._is_assigned(message)

    def _is_record(self, message: Any) -> bool:
        return connection.is_record(message) and self._is_assigned(message)

    def _is_assigned(self, message: Any) -> bool:
        """Return whether a message's partition is assigned now; librdkafka may have older ones."""
        return (message.topic(), message.partition()) in self._assigned

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset behind the last record of each partition."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        with self._errors():
            return {
                partition: topics.end_of(self._consumer, TopicPartition(*partition))
                for partition in partitions
            }

    def bounds(self, partition: TopicPartition, limit_s: float) -> tuple[int, int]:
        """Return the first offset of a partition, and the one behind its last."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        with self._errors():
            first, end = self._consumer.get_watermark_offsets(
                TopicPartition(*partition), timeout=limit_s
            )
            return first, end

    def since(self, partitions: Iterable[TopicPartition], ms: int) -> dict[TopicPartition, int]:
        """Return the offset of each partition's first record of this time (ms) or later."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        asked = [TopicPartition(*partition, ms) for partition in partitions]
        with self._errors():
            found = self._consumer.offsets_for_times(asked, topics.SECONDS_MAX)
        return {(each.topic, each.partition): each.offset for each in found}

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Take no more of these partitions until they are resumed."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        if chosen := [TopicPartition(*partition) for partition in partitions]:
            with self._errors():
                self._consumer.pause(chosen)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with paused partitions."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        if chosen := [TopicPartition(*partition) for partition in partitions]:
            with self._errors():
                self._consumer.resume(chosen)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise librdkafka's errors as ours."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        try:
            yield
        except KafkaException as error:
            why = self.config.hide(connection.reason(error))
            raise KafkaUnavailable(f"{self.failure}: {why}.", self.effect, self.remedy) from error


def _record(message: Any) -> Record:
    return Record(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        headers_of(message),
    )
