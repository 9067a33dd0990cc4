"""Until when a reader has got everything, by the pipeline's progress marks."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from streaming.clients.connecting import connected
from streaming.errors import ConfigError, KafkaUnavailable
from streaming.places import TopicPartition

READ_SECONDS_MAX = 30.0
WAITING_MAX = 100_000
"""Marks of a partition that a reader has not reached; beyond it the oldest are forgotten."""


@dataclass(slots=True)
class Reached:
    """One output partition: marks that are ahead of its reader, and until when it is complete."""

    until_ms: int | None = None
    ahead: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=WAITING_MAX))

    def note(self, mark: Mapping[str, Any]) -> None:
        """Take a mark; later ones tell of no less.

        Where one has a lower ``output_end``, the output was made anew: those before it never count.
        """
        read_ms, caught_up_ms = mark["read_until_ms"], mark.get("caught_up_ms")
        until_ms = max(read_ms, read_ms if caught_up_ms is None else caught_up_ms)
        if mark["oldest_held_ms"] is not None:
            until_ms = min(until_ms, mark["oldest_held_ms"])
        while self.ahead and self.ahead[-1][0] > mark["output_end"]:
            self.ahead.pop()
        self.ahead.append((mark["output_end"], until_ms))

    def at(self, position: int) -> int | None:
        """Until when (ms) a reader that has read up to here has everything."""
        while self.ahead and self.ahead[0][0] <= position:
            _, until_ms = self.ahead.popleft()
            self.until_ms = until_ms if self.until_ms is None else max(until_ms, self.until_ms)
        return self.until_ms


class Completeness:
    """Follows the marks of output topics; ``named`` has progress topics by output topic.

    Without a name the marks of `trades.out` are in `trades.progress`. Connects when it is asked.
    """

    def __init__(self, kafka: Mapping[str, Any], named: Mapping[str, str]) -> None:
        self.kafka = kafka
        self.named = named
        self.positions: dict[TopicPartition, int] = {}
        self._reached: dict[TopicPartition, Reached] = {}
        self._consumers: dict[str, Any] = {}
        self._lock = RLock()

    def read(self, topic: str, partition: int, position: int) -> None:
        """Note up to where a partition was read."""
        with self._lock:
            self.positions[topic, partition] = position

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Others read these partitions from now on."""
        with self._lock:
            for partition in partitions:
                self.positions.pop(partition, None)
                self._reached.pop(partition, None)
            self.close()  # marks of what comes back are read anew

    def until(self, assigned: Iterable[TopicPartition]) -> int | None:
        """Until when (ms) all these partitions are complete; None where one is not known."""
        partitions = list(assigned)
        with self._lock:
            for topic in dict.fromkeys(topic for topic, _ in partitions):
                self._follow(topic)
            times = [self._at(partition) for partition in partitions]
        known = [time_ms for time_ms in times if time_ms is not None]
        return min(known) if known and len(known) == len(times) else None

    def close(self) -> None:
        """Let go of the connections."""
        with self._lock:
            for consumer in self._consumers.values():
                consumer.close()
            self._consumers.clear()

    def _at(self, partition: TopicPartition) -> int | None:
        position = self.positions.get(partition)
        return (
            None
            if position is None
            else self._reached.setdefault(partition, Reached()).at(position)
        )

    def _follow(self, topic: str) -> None:
        """Take the marks that have come."""
        known = topic in self._consumers
        consumer = self._consumers[topic] if known else self._begin(topic)
        deadline = time.monotonic() + READ_SECONDS_MAX
        while True:
            messages = consumer.consume(500, timeout=0.0 if known else 0.5)
            ended = self._take(topic, messages)
            if ended or (known and not messages):
                return
            if time.monotonic() > deadline:
                raise KafkaUnavailable(
                    f"The progress marks of {topic} could not be read to the end.",
                    "Nothing is known of how complete it is.",
                    "Ask again when Kafka answers.",
                )

    def _take(self, topic: str, messages: Iterable[Any]) -> bool:
        """Take marks; whether these were the last ones."""
        from confluent_kafka import KafkaError  # noqa: PLC0415  (a cheap import of this package)

        ended = False
        for message in messages:
            if message.error():
                if message.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  (its name)
                    raise self._missing(topic, message.error().str())
                ended = True
            elif message.key() and message.value():
                partition = (topic, int(message.key()))
                self._reached.setdefault(partition, Reached()).note(json.loads(message.value()))
        return ended

    def _begin(self, topic: str) -> Any:
        from confluent_kafka import (  # noqa: PLC0415  (a cheap import of this package)
            OFFSET_BEGINNING,
            Consumer,
            KafkaException,
            TopicPartition,
        )

        name = self.named.get(topic, topic.removesuffix(".out") + ".progress")
        settings = {"enable.auto.commit": False, "enable.partition.eof": True}
        given = {"group.id": f"{name}.readers", **self.kafka, **settings}
        self._consumers[topic] = consumer = connected(Consumer, given)
        try:
            found = consumer.list_topics(name, timeout=READ_SECONDS_MAX).topics[name]
        except KafkaException as error:
            self.close()
            raise KafkaUnavailable(
                f"{name} cannot be read: {error.args[0].str()}.",
                f"Nothing is known of how complete {topic} is.",
                "Ask again when Kafka answers.",
            ) from error
        if found.error is not None:
            raise self._missing(topic, found.error.str())
        consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
        return consumer

    def _missing(self, topic: str, why: str) -> ConfigError:
        self.close()
        return ConfigError(
            f"There are no progress marks of {topic}: {why}.",
            "Nothing is known of how complete it is.",
            "Write progress = true into its pipeline; where their topic has another name, give "
            "the reader progress={output topic: topic of marks}.",
        )
