"""A pipeline's input as it lies in Kafka, in the order in which it came, and when it came."""

from __future__ import annotations

import heapq
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from streaming.config import Config
from streaming.errors import KafkaUnavailable
from streaming.kafka import topics
from streaming.kafka.reading import BEGINNING, ENDS, End, Record, TopicReader

QUIET_SECONDS_MAX = 30
QUEUED_MAX = 20_000
POLLED = 2_000

InputRow = dict[str, Any]
"""A record with the columns of `streaming.arrow.schemas.RECORD`."""


class Recorded:
    """Reads topics from their first records to their current ends, read_committed.

    A record's clock is the latest timestamp in its partition up to it (ms): records may come out of
    order, time does not. Partitions are merged by their clocks.
    """

    def __init__(self, config: Config, inputs: tuple[str, ...]) -> None:
        self.config = config
        self.inputs = inputs
        self._clocks: dict[tuple[str, int], int] = {}
        self._queues: dict[tuple[str, int], deque[tuple[int, InputRow]]] = {}
        self._open: set[tuple[str, int]] = set()
        self._paused: set[tuple[str, int]] = set()

    def __iter__(self) -> Iterator[tuple[int, InputRow]]:
        """(clock, record), clocks rising; KafkaUnavailable where Kafka stops answering."""
        start = {**ENDS, "auto.offset.reset": "earliest"}
        failure = "The input could not be read"
        with TopicReader(self.config, "recorded", failure, "", "", settings=start) as reader:
            for name, count in topics.partitions(self.config, self.inputs).items():
                for partition in range(count):
                    self._open.add((name, partition))
                    self._queues[name, partition] = deque()
            reader.assign(dict.fromkeys(sorted(self._open), BEGINNING))
            last_seconds = time.monotonic()
            while self._open:
                taken = reader.take(0.2, POLLED)
                if taken:
                    last_seconds = time.monotonic()
                elif time.monotonic() - last_seconds > QUIET_SECONDS_MAX:
                    raise KafkaUnavailable("Kafka stopped answering.", "Nothing was changed.")
                for each in taken:
                    self._put(each)
                yield from self._ready()
                self._hold_back(reader)

    def _put(self, record: Record | End) -> None:
        partition = record.home
        if isinstance(record, End):
            self._open.discard(partition)
            return
        if partition not in self._open:
            return  # it came after the end was met
        stamp = record.timestamp
        clock = self._clocks[partition] = max(stamp, self._clocks.get(partition, stamp))
        headers = [{"key": name, "value": value} for name, value in record.headers]
        row = {
            "topic": self.inputs.index(partition[0]),
            "partition": partition[1],
            "offset": record.offset,
            "timestamp": stamp,
            "key": record.key,
            "value": record.value,
            "headers": headers or None,
        }
        self._queues[partition].append((clock, row))

    def _ready(self) -> Iterator[tuple[int, InputRow]]:
        """Records that none can come before any more: all partitions that go on have some."""
        heap = [(queue[0][0], partition) for partition, queue in self._queues.items() if queue]
        heapq.heapify(heap)
        waiting = {partition for partition in self._open if not self._queues[partition]}
        while heap and not waiting:
            _, partition = heapq.heappop(heap)
            queue = self._queues[partition]
            yield queue.popleft()
            if queue:
                heapq.heappush(heap, (queue[0][0], partition))
            elif partition in self._open:
                return

    def _hold_back(self, reader: TopicReader) -> None:
        """Do not read far ahead in some partitions while others come slowly."""
        full = {partition for partition in self._open if len(self._queues[partition]) > QUEUED_MAX}
        reader.pause(full - self._paused)
        reader.resume(self._paused - full)
        self._paused = full
