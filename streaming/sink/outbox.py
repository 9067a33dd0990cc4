"""Finished record batches on their way to the leaders of their partitions.

A partition has one request under way at a time, a broker one request with a batch of each of its
partitions: so a request whose answer is lost is sent again as it was, and order stays. The broker
knows a batch that it has already by its producer and sequence number.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka.errors import KafkaError, KafkaTimeoutError, for_code
from kafka.protocol.producer import ProduceRequest

from streaming.arrow.record_batch import Batch, next_sequence
from streaming.kafka.brokers import LOOK_AGAIN_SECONDS, SECONDS_MAX, Brokers, Place

REQUEST_BYTES_MAX = 8 * 2**20
BROKER_SECONDS_MAX = 30
DUPLICATE = 46
WRITTEN = (0, DUPLICATE)

Topic = ProduceRequest.TopicProduceData
Partition = Topic.PartitionProduceData


@dataclass(slots=True)
class Outbox:
    """What one producer (id and epoch) sends; ``transactional_id`` is None without transactions."""

    brokers: Brokers
    producer: tuple[int, int]
    transactional_id: str | None
    sequences: dict[Place, int] = field(default_factory=dict)
    waiting: dict[Place, deque[bytes]] = field(default_factory=dict)
    waiting_bytes: int = 0
    busy: set[int] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    rest_until: float = 0.0
    met: KafkaError | None = None
    failure: KafkaError | None = None

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

    def go_on(self, seconds: float = 0) -> None:
        """Send what can be sent now, and hear answers, for which it waits at most so long.

        KafkaError where Kafka refused a batch.
        """
        if time.monotonic() >= self.rest_until:
            if self.moved:
                self._look_for_leaders()
            self._send()
        self.brokers.turn(seconds)
        if self.failure is not None:
            raise self.failure

    def _look_for_leaders(self) -> None:
        try:
            self.brokers.find_leaders(sorted(self.moved))
            self.moved.clear()
        except KafkaError as error:
            self._met(error)

    def _send(self) -> None:
        heads: dict[int, list[Place]] = {}
        for place, batches in self.waiting.items():
            if batches:
                node = self.brokers.leaders.get(place)
                if node is None:
                    self.moved.add(place[0])
                elif node not in self.busy:
                    heads.setdefault(node, []).append(place)
        for node, places in heads.items():
            self._request(node, places)

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
        self.busy.add(node)
        try:
            future = self.brokers.send(request, node)
        except KafkaError as error:
            self._lost(node, sent, error)
            return
        future.add_callback(partial(self._answered, node))
        future.add_errback(partial(self._lost, node, sent))

    def _answered(self, node: int, answer: Any) -> None:
        self.busy.discard(node)
        for topic in answer.responses:
            for partition_response in topic.partition_responses:
                if partition_response.error_code in WRITTEN:
                    self.waiting_bytes -= len(
                        self.waiting[topic.name, partition_response.index].popleft()
                    )
                    continue
                self.moved.add(topic.name)
                self._met(
                    for_code(partition_response.error_code)(
                        f"{topic.name} {partition_response.error_message or ''}"
                    )
                )

    def _lost(self, node: int, places: list[Place], error: KafkaError) -> None:
        """No answer: whether it was written, the broker will know."""
        self.busy.discard(node)
        self.moved.update(topic for topic, _ in places)
        self._met(error)

    def _met(self, error: KafkaError) -> None:
        self.met = error
        self.rest_until = time.monotonic() + LOOK_AGAIN_SECONDS
        if not error.retriable:
            self.failure = error
