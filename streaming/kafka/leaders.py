"""Requests to the leaders of partitions: one under way for each broker; leaders that move.

What is asked of them, and what an answer means, is a subclass's matter.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka.errors import KafkaError

from streaming.kafka.brokers import LOOK_AGAIN_SECONDS, Brokers, Place


@dataclass(slots=True)
class LeaderRequests(ABC):
    """``moved``: topics whose leaders are not known, or no longer; ``met``: the last error."""

    brokers: Brokers
    busy: set[int] = field(init=False, default_factory=set)
    moved: set[str] = field(init=False, default_factory=set)
    rest_until: float = field(init=False, default=0.0)
    met: KafkaError | None = field(init=False, default=None)
    failure: KafkaError | None = field(init=False, default=None)

    @abstractmethod
    def _wanted(self) -> Iterable[Place]:
        """The partitions that something is to be asked of."""

    @abstractmethod
    def _request(self, node: int, places: list[Place]) -> None:
        """Ask a broker about some of these partitions, with :meth:`_ask`."""

    def go_on(self, seconds: float = 0) -> None:
        """Send what can be sent now, and hear answers, for which it waits at most so long.

        KafkaError where a broker refused something for good.
        """
        if time.monotonic() >= self.rest_until:
            if self.moved:
                self._look_for_leaders()
            self._send()
        self.brokers.turn(seconds)
        if self.failure is not None:
            raise self.failure

    def _ask(
        self, request: Any, node: int, places: list[Place], answered: Callable[[Any], None]
    ) -> None:
        """Begin a request about these partitions; ``answered`` gets what the broker says."""
        self.busy.add(node)
        try:
            future = self.brokers.send(request, node)
        except KafkaError as error:
            self._lost(node, places, error)
            return
        future.add_callback(partial(self._heard, node, answered))
        future.add_errback(partial(self._lost, node, places))

    def _refused(self, topic: str, error: KafkaError) -> None:
        """A broker did not do what was asked of a partition, perhaps as it is no leader."""
        self.moved.add(topic)
        self._met(error)

    def _met(self, error: KafkaError) -> None:
        self.met = error
        self.rest_until = time.monotonic() + LOOK_AGAIN_SECONDS
        if not error.retriable:
            self.failure = error

    def _look_for_leaders(self) -> None:
        try:
            self.brokers.find_leaders(sorted(self.moved))
            self.moved.clear()
        except KafkaError as error:
            self._met(error)

    def _send(self) -> None:
        asked: dict[int, list[Place]] = {}
        for place in self._wanted():
            node = self.brokers.leaders.get(place)
            if node is None:
                self.moved.add(place[0])
            elif node not in self.busy:
                asked.setdefault(node, []).append(place)
        for node, places in asked.items():
            self._request(node, places)

    def _heard(self, node: int, answered: Callable[[Any], None], answer: Any) -> None:
        self.busy.discard(node)
        answered(answer)

    def _lost(self, node: int, places: list[Place], error: KafkaError) -> None:
        """No answer; what became of the request is not known."""
        self.busy.discard(node)
        self.moved.update(topic for topic, _ in places)
        self._met(error)
