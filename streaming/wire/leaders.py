"""Requests to the leaders of partitions: what is in flight, and leaders that move.

A partition has one request in flight, whichever broker it went to: a new leader is asked only when
the answer has arrived or the connection has ended. So two answers never concern the same work. A
broker has one request in flight, too: whatever it is to be asked meanwhile goes into the next one.

Subclasses make the requests and handle the answers.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka.errors import KafkaError, NodeNotReadyError

from streaming.places import TopicPartition
from streaming.wire.brokers import LOOK_AGAIN_SECONDS, Brokers


@dataclass(slots=True)
class PartitionRequests(ABC):
    """Sends requests and handles answers, in :meth:`poll`.

    ``stale_topics``: topics whose leaders have to be looked up. ``replicas``: followers from which
    leaders said to read (KIP-392), until leaders are looked up. ``last_error``: of a request.
    ``failure``: the error that ends the work. ``unanswered``: the number of requests without an
    answer; each may still reach a broker.
    """

    brokers: Brokers
    in_flight: set[TopicPartition] = field(init=False, default_factory=set)
    busy_nodes: set[int] = field(init=False, default_factory=set)
    stale_topics: set[str] = field(init=False, default_factory=set)
    replicas: dict[TopicPartition, int] = field(init=False, default_factory=dict)
    rest_until: float = field(init=False, default=0.0)
    last_error: KafkaError | None = field(init=False, default=None)
    failure: Exception | None = field(init=False, default=None)
    unanswered: int = field(init=False, default=0)

    @abstractmethod
    def _wanted(self) -> Iterable[TopicPartition]:
        """Return the partitions with something to request, also those in flight."""

    @abstractmethod
    def _request(self, node: int, partitions: list[TopicPartition]) -> None:
        """Ask a broker about some of these partitions, with :meth:`_ask`."""

    def poll(self, seconds: float = 0) -> None:
        """Send what can be sent now, and handle answers; wait for them at most this long.

        Raises KafkaError if a broker refused a request for good, or what handling an answer raised.
        """
        if time.monotonic() >= self.rest_until:
            if self.stale_topics:
                self._look_for_leaders()
            self._send()
        self.brokers.turn(seconds)
        if self.failure is not None:
            raise self.failure

    def _ask(
        self,
        request: Any,
        node: int,
        partitions: list[TopicPartition],
        answered: Callable[[Any], None],
    ) -> None:
        """Send a request about these partitions; call ``answered`` with the broker's answer."""
        self.busy_nodes.add(node)
        self.in_flight.update(partitions)
        try:
            future = self.brokers.send(request, node)
        except KafkaError as error:
            self._lost(node, partitions, error)
            return
        future.add_callback(partial(self._heard, node, partitions, answered))
        future.add_errback(partial(self._lost, node, partitions))

    def _read_from(self, partition: TopicPartition, replica: int) -> None:
        """Ask this follower next, which the leader named in place of records; -1: the leader."""
        if replica >= 0:
            self.replicas[partition] = replica
        else:
            self.replicas.pop(partition, None)

    def _refused(self, topic: str, error: KafkaError) -> None:
        """Note that a broker refused a request, perhaps because it is not the leader."""
        self.stale_topics.add(topic)
        self._failed(error)

    def _failed(self, error: KafkaError) -> None:
        self.last_error = error
        self.rest_until = time.monotonic() + LOOK_AGAIN_SECONDS
        if not error.retriable:
            self.failure = self.failure or error

    def _look_for_leaders(self) -> None:
        asked = sorted(self.stale_topics)
        self.replicas.clear()
        self.stale_topics.clear()  # before: an answer that comes meanwhile may add some
        try:
            self.brokers.find_leaders(asked)
        except KafkaError as error:
            self.stale_topics.update(asked)
            self._failed(error)

    def _send(self) -> None:
        asked: dict[int, list[TopicPartition]] = {}
        for partition in self._wanted():
            node = self.replicas.get(partition, self.brokers.leaders.get(partition))
            if node is None:
                self.stale_topics.add(partition[0])
            elif node not in self.busy_nodes and partition not in self.in_flight:
                asked.setdefault(node, []).append(partition)
        for node, partitions in asked.items():
            self._request(node, partitions)

    def _heard(
        self,
        node: int,
        partitions: list[TopicPartition],
        answered: Callable[[Any], None],
        answer: Any,
    ) -> None:
        self._settle(node, partitions)
        try:
            answered(answer)
        except Exception as error:  # noqa: BLE001  (the caller would only log it and go on)
            self.failure = self.failure or error

    def _lost(self, node: int, partitions: list[TopicPartition], error: KafkaError) -> None:
        """Note that a request got no answer; whether it took effect is not known."""
        self._settle(node, partitions)
        self.unanswered += not isinstance(error, NodeNotReadyError)  # which was not sent
        self.stale_topics.update(topic for topic, _ in partitions)
        self._failed(error)

    def _settle(self, node: int, partitions: list[TopicPartition]) -> None:
        self.busy_nodes.discard(node)
        self.in_flight.difference_update(partitions)
