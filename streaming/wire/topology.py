"""Topics' ids, partitions, leaders and leader epochs, from brokers' answers."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from streaming.places import TopicPartition


@dataclass(slots=True)
class Topology:
    """The newest known metadata of some topics.

    ``leaders`` are brokers, ``epochs`` are leader epochs (-1: unknown), ``ids`` are topic ids
    (KIP-516; "" if a broker gives none), ``partitions`` ascend. ``version`` grows with every
    change.
    """

    leaders: dict[TopicPartition, int] = field(default_factory=dict)
    epochs: dict[TopicPartition, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[str, list[int]] = field(default_factory=dict)
    version: int = 0

    def update(self, topics: Iterable[Any]) -> None:
        """Take over an answer's topics, except those with an error.

        A broker that lags may return older leaders than are known; these are ignored while the
        topic is the same.
        """
        self.version += 1
        for topic in topics:
            if topic.error_code:
                continue
            if self.ids.get(topic.name, "") not in ("", id_text(topic.topic_id)):
                self._forget(topic.name)
            self.ids[topic.name] = id_text(topic.topic_id)
            self.partitions[topic.name] = sorted(each.partition_index for each in topic.partitions)
            for each in topic.partitions:
                partition = (topic.name, each.partition_index)
                if each.leader_epoch < self.epochs.get(partition, -1):
                    continue
                self.epochs[partition] = each.leader_epoch
                if each.leader_id >= 0:
                    self.leaders[partition] = each.leader_id
                else:
                    self.leaders.pop(partition, None)

    def _forget(self, topic: str) -> None:
        """Forget the leaders of a topic that was created anew, also what :meth:`require` set."""
        for known in (self.leaders, self.epochs):
            for partition in [each for each in known if each[0] == topic]:
                del known[partition]

    def require(self, topic: str, topic_id: str, epochs: Mapping[int, int]) -> None:
        """Ignore leaders of this topic (by its id) with epochs older than these, by partition.

        A broker that is cut off from the others still takes itself for the leader.
        """
        if not topic_id or self.ids.setdefault(topic, topic_id) != topic_id:
            return
        for number, epoch in epochs.items():
            if epoch > self.epochs.get((topic, number), -1):
                self.epochs[topic, number] = epoch
                self.leaders.pop((topic, number), None)
                self.version += 1

    def clear(self) -> None:
        """Forget all topics."""
        self.version += 1
        for known in (self.leaders, self.epochs, self.ids, self.partitions):
            known.clear()


def id_text(topic_id: uuid.UUID | None) -> str:
    """Return a topic's id as Kafka's tools show it; "" for none."""
    if topic_id is None or not topic_id.int:
        return ""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def id_of(text: str) -> uuid.UUID:
    """Return the inverse of :func:`id_text`."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "==") if text else bytes(16))
