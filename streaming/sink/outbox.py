"""Finished record batches on their way to the leaders of their partitions.

A partition has one request under way at a time, a broker one request with a batch of each of its
partitions: so a request whose answer is lost is sent again as it was, and order stays. The broker
knows a batch that it has already by its producer and sequence number.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import KafkaTimeoutError, for_code
from kafka.protocol.producer import ProduceRequest

from streaming.arrow.record_batch import Batch, next_sequence
from streaming.kafka.brokers import LOOK_AGAIN_SECONDS, SECONDS_MAX, Place
from streaming.kafka.leaders import LeaderRequests

REQUEST_BYTES_MAX = 8 * 2**20
BROKER_SECONDS_MAX = 30
DUPLICATE = 46
WRITTEN = (0, DUPLICATE)

Topic = ProduceRequest.TopicProduceData
Partition = Topic.PartitionProduceData


@dataclass(slots=True)
class Outbox(LeaderRequests):
    """What one producer (id and epoch) sends; ``transactional_id`` is None without transactions."""

    producer: tuple[int, int]
    transactional_id: str | None
    sequences: dict[Place, int] = field(default_factory=dict)
    waiting: dict[Place, deque[bytes]] = field(default_factory=dict)
    waiting_bytes: int = 0

    def put(self, topic: str, batch: Batch) -> None:
        """Take a batch to be sent behind those before it (with :meth:`go_on`)."""
        place = (topic, batch.partition)
        sequence = self.sequences.get(place, 0)
        self.sequences[place] = next_sequence(sequence, batch.count)
        data = batch.finished(
            self.producer, sequence, transactional=self.transactional_id is not None
        )
        self.waiting.setdefault(place, deque()).append(data)
        self.waiting_bytes += len(data)

    def wait(self, bytes_max: int = 0) -> None:
        """Go on until no more than so many bytes are left.

        KafkaError where Kafka refuses a batch, or acknowledges none for SECONDS_MAX.
        """
        left, deadline = self.waiting_bytes, time.monotonic() + SECONDS_MAX
        while self.waiting_bytes > bytes_max:
            self.go_on(LOOK_AGAIN_SECONDS)
            if self.waiting_bytes < left:
                left, deadline = self.waiting_bytes, time.monotonic() + SECONDS_MAX
            elif time.monotonic() > deadline:
                raise self.met or KafkaTimeoutError("no batch was acknowledged")

    def _wanted(self) -> Iterable[Place]:
        return [place for place, batches in self.waiting.items() if batches]

    def _request(self, node: int, places: list[Place]) -> None:
        topics: dict[str, list[Any]] = {}
        size = 0
        sent: list[Place] = []
        for place in places:
            data = self.waiting[place][0]
            if sent and size + len(data) > REQUEST_BYTES_MAX:
                break
            size += len(data)
            sent.append(place)
            topics.setdefault(place[0], []).append(Partition(index=place[1], records=data))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=BROKER_SECONDS_MAX * 1000,
            topic_data=[
                Topic(name=name, partition_data=partitions) for name, partitions in topics.items()
            ],
            max_version=11,
        )
        self._ask(request, node, sent, self._answered)

    def _answered(self, answer: Any) -> None:
        for topic in answer.responses:
            for told in topic.partition_responses:
                if told.error_code in WRITTEN:
                    self.waiting_bytes -= len(self.waiting[topic.name, told.index].popleft())
                    continue
                said = f"{topic.name} {told.error_message or ''}"
                self._refused(topic.name, for_code(told.error_code)(said))
