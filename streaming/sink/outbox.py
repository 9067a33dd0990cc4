"""Finished record batches on their way to the leaders of their partitions.

A partition has one request in flight at a time, with its first batch: so a request whose answer is
lost is sent again as it was, and order stays. The broker knows a batch that it has already by its
producer and sequence number.

A batch that the broker refuses for good is taken apart, and what it takes of it is sent: a refused
batch has used up no sequence number. Within a transaction the others go on, so that all refused
records are known at its end; without one, nothing is written behind the first of a partition.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka.errors import KafkaTimeoutError, for_code

from streaming.disciplines.refused import Refusal
from streaming.places import TopicPartition
from streaming.sink.refusals import FOR_GOOD, TOO_LARGE, sorted_out
from streaming.wire.brokers import LOOK_AGAIN_SECONDS, SECONDS_MAX
from streaming.wire.leaders import PartitionRequests
from streaming.wire.produce import produce, results
from streaming.wire.record_batch import RecordBatch, next_sequence, records_in
from streaming.wire.splitting import halves, unfinished

REQUEST_BYTES_MAX = 8 * 2**20
BROKER_SHARE = 2 / 3
"""Of the time until an answer is given up: a broker says before that it has none."""
DUPLICATE = 46
WRITTEN = (0, DUPLICATE)


@dataclass(slots=True)
class Outbox(PartitionRequests):
    """What one producer (id and epoch) sends; ``transactional_id`` is None without transactions.

    ``refusals``: records that the brokers refused for good. ``stopped``: partitions that get
    nothing more because of one. ``too_large``: by topic, the bytes of a batch that was too large.
    ``ends``: the offsets behind what was written, also in sessions before.
    """

    producer: tuple[int, int]
    transactional_id: str | None
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    waiting: dict[TopicPartition, deque[bytes]] = field(default_factory=dict)
    waiting_bytes: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    stopped: set[TopicPartition] = field(default_factory=set)
    too_large: dict[str, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)

    def put(self, topic: str, batch: RecordBatch) -> None:
        """Take a batch to be sent behind those before it (with :meth:`poll`)."""
        partition = (topic, batch.partition)
        if partition in self.stopped:
            return
        if batch.count > 1 and batch.size >= self.too_large.get(topic, sys.maxsize):
            for half in halves(batch):
                self.put(topic, half)
            return
        sequence = self.sequences.get(partition, 0)
        self.sequences[partition] = next_sequence(sequence, batch.count)
        data = batch.finished(
            self.producer, sequence, transactional=self.transactional_id is not None
        )
        self.waiting.setdefault(partition, deque()).append(data)
        self.waiting_bytes += len(data)

    def clear(self) -> None:
        """Give up what waits; what is in flight may still be written."""
        self.waiting.clear()
        self.waiting_bytes = 0

    def wait(self, bytes_max: int = 0) -> None:
        """Go on until no more than this many bytes are left.

        KafkaError where Kafka refuses a batch, or acknowledges none for SECONDS_MAX.
        """
        bytes_before, deadline = self.waiting_bytes, time.monotonic() + SECONDS_MAX
        while self.waiting_bytes > bytes_max:
            self.poll(LOOK_AGAIN_SECONDS)
            if self.waiting_bytes < bytes_before:
                bytes_before, deadline = self.waiting_bytes, time.monotonic() + SECONDS_MAX
            elif time.monotonic() > deadline:
                raise self.last_error or KafkaTimeoutError("no batch was acknowledged")

    def _wanted(self) -> Iterable[TopicPartition]:
        return [partition for partition, batches in self.waiting.items() if batches]

    def _request(self, node: int, partitions: list[TopicPartition]) -> None:
        size = 0
        sent: dict[TopicPartition, bytes] = {}
        for partition in partitions:
            data = self.waiting[partition][0]
            if sent and size + len(data) > REQUEST_BYTES_MAX:
                break
            size += len(data)
            sent[partition] = data
        seconds = self.brokers.request_ms * BROKER_SHARE / 1000
        request = produce(sent, self.transactional_id, seconds)
        self._ask(request, node, list(sent), partial(self._answered, sent))

    def _answered(self, sent: Mapping[TopicPartition, bytes], answer: Any) -> None:
        for partition, each in results(answer):
            if each.error_code in WRITTEN:
                if self._is_first(partition, sent[partition]):
                    self.waiting_bytes -= len(self.waiting[partition].popleft())
                    if each.base_offset >= 0:  # brokers may not know it of a duplicate
                        self.ends[partition] = each.base_offset + records_in(sent[partition])
            elif each.error_code in FOR_GOOD:
                if self._is_first(partition, sent[partition]):
                    self._sort_out(partition, each)
            else:
                said = f"{partition[0]} {each.error_message or ''}".rstrip()
                self._refused(partition[0], for_code(each.error_code)(said))

    def _is_first(self, partition: TopicPartition, data: bytes) -> bool:
        """Whether this very batch is still to be written; what was given up since is not."""
        queue = self.waiting.get(partition)
        return queue is not None and len(queue) > 0 and queue[0] is data

    def _sort_out(self, topic_partition: TopicPartition, answer: Any) -> None:
        """Send what is left of a batch without the records that are refused."""
        topic, partition = topic_partition
        queue = self.waiting.pop(topic_partition)
        self.waiting_bytes -= sum(map(len, queue))
        (batch, self.sequences[topic_partition]), *behind = (
            unfinished(each, partition) for each in queue
        )
        if FOR_GOOD[answer.error_code] == TOO_LARGE and batch.count > 1:
            self.too_large[topic] = min(batch.size, self.too_large.get(topic, sys.maxsize))
        in_order = self.transactional_id is None
        refusals, again = sorted_out(topic, batch, answer, in_order=in_order)
        self.refusals += refusals
        if refusals and in_order:
            self.stopped.add(topic_partition)
        for each in [*again, *(batch for batch, _ in behind)]:
            self.put(topic, each)
