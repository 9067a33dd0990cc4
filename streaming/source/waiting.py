"""Waiting for records at the brokers, which answer as soon as there are some.

A request for what comes next in all partitions that a broker leads stays there until something has
come (a long poll). It goes over connections of its own: a broker answers the requests of one
connection in their order. What an answer brings is not used, but that there is something.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka.errors import KafkaError

from streaming.places import TopicPartition
from streaming.source.positions import Position, logs_in, offsets_in
from streaming.wire.brokers import LOOK_AGAIN_SECONDS
from streaming.wire.fetch import Part, fetch, results
from streaming.wire.leaders import PartitionRequests

STAYS_MS = 5_000
"""A broker answers that there is nothing when a request has been there for this long."""
TURN_SECONDS = 0.2
"""How long a waiting thread may not notice that the query has ended."""


@dataclass(slots=True)
class Waiting(PartitionRequests):
    """Waits until there may be more than what was read; never says for certain that there is."""

    next: dict[TopicPartition, Part] = field(init=False, default_factory=dict)
    is_over: bool = field(init=False, default=False)

    def __call__(self, read: Position, seconds: float, ended: threading.Event) -> None:
        """Wait this long at most, until something may be new behind ``read``, or the query ends.

        Where a broker refuses or is gone it returns soon: the caller looks for itself then.
        """
        self.is_over = False
        logs = logs_in(read)
        self.next = {
            (topic, int(at)): Part((topic, int(at)), logs[topic].id, -1, offset, 1)
            for topic, of in offsets_in(read).items()
            for at, offset in of.items()
            if topic in logs
        }
        deadline = time.monotonic() + seconds
        try:
            self.brokers.connect(seconds)
            while not (self.is_over or ended.is_set()):
                seconds_left = deadline - time.monotonic()
                if seconds_left <= 0:
                    return
                self.poll(min(seconds_left, TURN_SECONDS))
        except KafkaError:
            self._rest(deadline, ended)

    def _rest(self, deadline: float, ended: threading.Event) -> None:
        """Begin with new connections the next time, and not at once."""
        self.failure = self.last_error = None
        self.stale_topics.clear()
        self.in_flight.clear()
        self.busy_nodes.clear()
        with contextlib.suppress(KafkaError):
            self.brokers.reset()
        ended.wait(max(0.0, min(LOOK_AGAIN_SECONDS, deadline - time.monotonic())))

    def _wanted(self) -> Iterable[TopicPartition]:
        return self.next

    def _request(self, node: int, partitions: list[TopicPartition]) -> None:
        epochs = self.brokers.topology.epochs
        parts = [
            self.next[partition]._replace(epoch=epochs.get(partition, -1))
            for partition in partitions
        ]
        request = fetch(parts, wait_ms=STAYS_MS, bytes_max=1)
        self._ask(request, node, partitions, partial(self._answered, parts))

    def _answered(self, parts: list[Part], answer: Any) -> None:
        found = [*results(answer, parts)]
        for partition, each in found:
            if not each.records:
                self._read_from(partition, each.preferred_read_replica)
        said = [each for _, each in found]
        if answer.error_code or any(each.error_code for each in said):
            self.stale_topics.update(each.home[0] for each in parts)
            self.rest_until = time.monotonic() + LOOK_AGAIN_SECONDS
            self.is_over = True
        self.is_over = self.is_over or any(each.records for each in said)
