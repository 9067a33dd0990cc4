"""Reading whole topics with kafka-python, a client that the service itself does not use."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from streaming.config import Config
from streaming.errors import KafkaUnavailable
from streaming.kafka import client_settings, connection
from streaming.kafka.reading import Record
from streaming.wire.codecs import read_all_codecs
from streaming.wire.header_names import read_all_names

__all__ = ["Record", "Topics"]

QUIET_SECONDS_MAX = 60
"""Without a record, while the end is not reached; the judge's own time does not count."""


class Topics:
    """A reader of whole topics; a context manager."""

    def __init__(self, config: Config, progress: Callable[[str, int, int], None]) -> None:
        from kafka import KafkaConsumer  # noqa: PLC0415  (a quick --help)
        from kafka.errors import KafkaError  # noqa: PLC0415

        self.progress = progress
        connection.wait_for_kafka(config)
        read_all_names()
        read_all_codecs()
        try:
            self._consumer = KafkaConsumer(
                **client_settings.kafka_python(config),
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_bytes=32 * 2**20,
                max_partition_fetch_bytes=8 * 2**20,
                max_poll_records=5000,
            )
        except KafkaError as error:
            raise KafkaUnavailable(
                f"Kafka at {config.kafka.bootstrap_servers} does not answer ({error}).",
                "Nothing was judged.",
                "Run it again when Kafka answers.",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has; 0 where there is no such topic."""
        return len(self._consumer.partitions_for_topic(topic) or ())

    def ends(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """The end of each partition of some topics."""
        partitions = [each for topic in topics for each in self._partitions(topic)]
        ends = self._consumer.end_offsets(partitions) if partitions else {}
        return {(partition.topic, partition.partition): end for partition, end in ends.items()}

    def count(self, topic: str) -> int:
        """Return the number of offsets of a topic now; it has no more records."""
        partitions = self._partitions(topic)
        consumer = self._consumer
        begins = consumer.beginning_offsets(partitions) if partitions else {}
        ends = consumer.end_offsets(partitions) if partitions else {}
        return sum(ends[partition] - begins[partition] for partition in partitions)

    def each(self, topic: str, since: Mapping[int, int] | None = None) -> Iterator[Record]:
        """The committed records of a topic up to its ends now, each partition's in its order.

        ``since``: by partition the offset to begin with, if it is not the first. One topic at a
        time: a second call ends the first one's records. Raises KafkaUnavailable.
        """
        from kafka.errors import KafkaError  # noqa: PLC0415

        try:
            yield from self._each(topic, since or {})
        except KafkaError as error:
            raise KafkaUnavailable(
                f"{topic} could not be read ({error}).",
                "Nothing was judged.",
                "Look at the brokers, and at this user's right to read the topic; then try again.",
            ) from error

    def _each(self, topic: str, since: Mapping[int, int]) -> Iterator[Record]:
        consumer, partitions = self._consumer, self._partitions(topic)
        consumer.assign(partitions)
        begins = consumer.beginning_offsets(partitions) if partitions else {}
        ends = consumer.end_offsets(partitions) if partitions else {}
        total = sum(ends[partition] - begins[partition] for partition in partitions)
        if partitions:
            consumer.seek_to_beginning(*partitions)
        for partition in partitions:
            if partition.partition in since:
                consumer.seek(partition, since[partition.partition])
        moved = time.monotonic()
        count = 0
        while any(consumer.position(partition) < ends[partition] for partition in partitions):
            polled = consumer.poll(timeout_ms=500)
            if not polled and time.monotonic() - moved > QUIET_SECONDS_MAX:
                raise KafkaUnavailable(
                    f"{topic} could not be read to its end: nothing comes.",
                    "Nothing was judged.",
                    "Run it again when Kafka answers.",
                )
            for partition, messages in polled.items():
                count += len(messages)
                for message in messages:
                    if message.offset < ends[partition]:
                        yield as_record(message)
            moved = time.monotonic() if polled else moved
            self.progress(f"reading {topic}", count, total)

    def _partitions(self, topic: str) -> list[Any]:
        from kafka import TopicPartition  # noqa: PLC0415

        numbers = sorted(self._consumer.partitions_for_topic(topic) or ())
        return [TopicPartition(topic, number) for number in numbers]


def as_record(message: Any) -> Record:
    """A message of kafka-python."""
    return Record(
        message.topic,
        message.partition,
        message.offset,
        message.timestamp,
        message.key,
        message.value,
        tuple((name, value) for name, value in message.headers or ()),
    )
