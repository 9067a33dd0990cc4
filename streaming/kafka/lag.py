"""How far behind Kafka a pipeline is: in records, and in seconds by the records' own timestamps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streaming.config import Config
from streaming.errors import KafkaUnavailable
from streaming.kafka import connection, topics
from streaming.kafka.reading import Record, TopicReader
from streaming.places import TopicPartition

UNREADABLE = "The lag could not be read"

FIRST_SECONDS_MAX = 5
"""Time to find the first unread record of a partition; if none comes, there are only markers."""
FETCH_BYTES = 65_536
"""Small, as one record of each partition is needed; a broker sends at least one whole batch."""


@dataclass(frozen=True, slots=True)
class Lag:
    """``records`` that are not read yet (markers of transactions, and open ones, count).

    ``seconds``: from the timestamp of the first of them to that of the partition's newest record,
    of all partitions the longest; 0 where all is read.
    """

    records: int
    seconds: float


def clients_of(config: Config) -> tuple[TopicReader, Any]:
    """Return clients for a :class:`LagReader`; they read the files of certificates once, here."""
    fetch = {
        "auto.offset.reset": "earliest",
        "fetch.message.max.bytes": FETCH_BYTES,
        "isolation.level": "read_uncommitted",
    }
    reader = TopicReader(config, "lag", UNREADABLE, remedy="", settings=fetch)
    return reader, connection.admin(config)


class LagReader:
    """Asks Kafka for the lag of some topics, again and again over the same connections."""

    def __init__(
        self,
        config: Config,
        names: tuple[str, ...],
        clients: tuple[TopicReader, Any] | None = None,
        *,
        announce: bool = True,
    ) -> None:
        """``clients``: those of another reader, which closes them; use one of both at a time.

        ``announce``: say that Kafka is waited for (`connection.wait_for_kafka`).
        """
        self._partitions = [
            (name, partition)
            for name, count in topics.partitions(config, names, announce=announce).items()
            for partition in range(count)
        ]
        self.clients = clients or clients_of(config)
        self._reader, self._admin = self.clients

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()

    def __call__(self, read: Mapping[str, Mapping[str, int]]) -> Lag:
        """Return the lag behind the offsets up to which topics and partitions were read.

        Raises KafkaUnavailable if Kafka does not answer.
        """
        behind: dict[TopicPartition, int] = {}
        records = 0
        for partition, end in self._reader.ends(self._partitions).items():
            offset = read.get(partition[0], {}).get(str(partition[1]), -1)
            if offset < 0:  # of a topic from which records were deleted the first is not 0
                offset, _ = self._reader.bounds(partition, topics.SECONDS_MAX)
            if end > offset:
                behind[partition] = offset
                records += end - offset
        return Lag(records, self._seconds(behind) if behind else 0.0)

    def _seconds(self, behind: Mapping[TopicPartition, int]) -> float:
        first = self._first_ms(behind)
        newest = self._newest_ms(first)
        return max((newest[partition] - first[partition] for partition in first), default=0) / 1000

    def _first_ms(self, behind: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the timestamp of the first record from these offsets on, in each partition."""
        self._reader.assign(behind)
        first_ms: dict[TopicPartition, int] = {}
        deadline = time.monotonic() + FIRST_SECONDS_MAX
        try:
            while len(first_ms) < len(behind) and time.monotonic() < deadline:
                for record in self._reader.take(0.1):
                    if isinstance(record, Record) and record.home not in first_ms:
                        first_ms[record.home] = record.timestamp
                        self._reader.pause([record.home])
        finally:
            self._reader.resume(first_ms)  # a pause would outlive the assignment
            self._reader.assign({})
        return first_ms

    def _newest_ms(self, wanted: Mapping[TopicPartition, Any]) -> dict[TopicPartition, int]:
        from confluent_kafka import KafkaException, TopicPartition  # noqa: PLC0415
        from confluent_kafka.admin import OffsetSpec  # noqa: PLC0415

        asked = {TopicPartition(*partition): OffsetSpec.max_timestamp() for partition in wanted}
        try:
            answers = self._admin.list_offsets(asked, request_timeout=topics.SECONDS_MAX)
            return {
                (partition.topic, partition.partition): answer.result(topics.SECONDS_MAX).timestamp
                for partition, answer in answers.items()
            }
        except (KafkaException, TimeoutError) as error:
            raise KafkaUnavailable(
                f"{UNREADABLE}: {connection.reason(error)}.", "Nothing was changed."
            ) from error
