"""How far behind Kafka a pipeline is: in records, and in seconds by the records' own timestamps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streaming.config import Config
from streaming.errors import KafkaUnavailable
from streaming.kafka import connection, topics

FIRST_SECONDS_MAX = 5
"""For the first unread record of each partition; where none comes, there are only markers."""
FETCH_BYTES = 65_536
"""One record of each partition is wanted; the broker gives a whole batch of them at least."""


@dataclass(frozen=True, slots=True)
class Lag:
    """``records`` that are not read yet (markers of transactions count).

    ``seconds``: from the timestamp of the first of them to that of the partition's newest record,
    of all partitions the longest; 0 where all is read.
    """

    records: int
    seconds: float


class LagReader:
    """Asks Kafka for the lag of some topics, again and again over the same connections."""

    def __init__(
        self, config: Config, names: tuple[str, ...], clients: tuple[Any, Any] | None = None
    ) -> None:
        """``clients``: those of another reader, which closes them; one of both asks at a time."""
        fetch = {"auto.offset.reset": "earliest", "fetch.message.max.bytes": FETCH_BYTES}
        self.clients = clients or (
            connection.reader(config, "lag", **fetch),
            connection.admin(config),
        )
        self._consumer, self._admin = self.clients
        self._places = [
            (name, partition)
            for name, count in topics.partitions(config, names).items()
            for partition in range(count)
        ]

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()

    def __call__(self, read: Mapping[str, Mapping[str, int]]) -> Lag:
        """The lag behind the offsets up to which topics and partitions were read.

        Raises KafkaUnavailable where Kafka does not answer.
        """
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415

        try:
            behind: dict[tuple[str, int], int] = {}
            records = 0
            for name, partition in self._places:
                offset = read.get(name, {}).get(str(partition), 0)
                end = topics.end_of(self._consumer, TopicPartition(name, partition))
                if end > offset:
                    behind[name, partition] = offset
                    records += end - offset
            return Lag(records, self._seconds(behind) if behind else 0.0)
        except (KafkaException, TimeoutError) as error:
            raise KafkaUnavailable(
                f"The lag could not be read: {connection.reason(error)}.", "Nothing was changed."
            ) from error

    def _seconds(self, behind: Mapping[tuple[str, int], int]) -> float:
        first = self._first_ms(behind)
        newest = self._newest_ms(first)
        return max((newest[place] - first[place] for place in first), default=0) / 1000

    def _first_ms(self, behind: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """The timestamp of the first record from these offsets on, in each partition."""
        from confluent_kafka import TopicPartition  # noqa: PLC0415

        self._consumer.assign([TopicPartition(*place, at) for place, at in behind.items()])
        first_ms: dict[tuple[str, int], int] = {}
        deadline = time.monotonic() + FIRST_SECONDS_MAX
        try:
            while len(first_ms) < len(behind) and time.monotonic() < deadline:
                message = self._consumer.poll(0.1)
                if not connection.is_record(message):
                    continue
                place = (message.topic(), message.partition())
                if place not in first_ms:
                    first_ms[place] = message.timestamp()[1]
                    self._consumer.pause([TopicPartition(*place)])
        finally:
            # A pause would outlive the assignment.
            self._consumer.resume([TopicPartition(*place) for place in first_ms])
            self._consumer.unassign()
        return first_ms

    def _newest_ms(self, wanted: Mapping[tuple[str, int], Any]) -> dict[tuple[str, int], int]:
        from confluent_kafka import TopicPartition  # noqa: PLC0415
        from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

        asked = {TopicPartition(*place): OffsetSpec.max_timestamp() for place in wanted}
        answers = self._admin.list_offsets(asked, request_timeout=topics.SECONDS_MAX)
        return {
            (place.topic, place.partition): answer.result(topics.SECONDS_MAX).timestamp
            for place, answer in answers.items()
        }
