"""First and last offsets of partitions, and where an epoch's log ends, requested from leaders."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kafka.errors import (
    KafkaError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest

from streaming.places import TopicPartition
from streaming.wire.brokers import LOOK_AGAIN_SECONDS, SECONDS_MAX, Brokers

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
EARLIEST, LATEST = -2, -1

ListTopic = ListOffsetsRequest.ListOffsetsTopic
ListPartition = ListTopic.ListOffsetsPartition
EpochTopic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
EpochPartition = EpochTopic.OffsetForLeaderPartition

ByNode = dict[int, dict[str, list[Any]]]
"""The partitions of each topic to ask about, by broker."""


class Bound(NamedTuple):
    """An offset, and the epoch of the leader that returned it (-1: unknown)."""

    offset: int
    epoch: int


Bounds = dict[str, dict[int, Bound]]


class BoundsReader:
    """Requests the bounds of some topics' partitions, again and again.

    ``committed``: whether LATEST excludes the records of open transactions.

    Leaders are looked up when one is not known or refuses because it does not lead;
    :meth:`refresh` looks them up at other times.
    """

    def __init__(self, brokers: Brokers, topics: Iterable[str], *, committed: bool = True) -> None:
        self.brokers = brokers
        self.isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
        self.topics = sorted(topics)
        self._requests: dict[int, list[tuple[int, Any]]] = {}
        self._version = -1

    def __call__(self, which: int) -> Bounds:
        """Return each partition's first offset (EARLIEST) or its end (LATEST).

        Raises KafkaError if a topic is missing, or a broker refuses or does not answer in time.
        """
        found: Bounds = _again(self.brokers, self.topics, lambda: self._ask(which))
        return found

    def refresh(self, *, of_most: bool = False) -> bool:
        """Look up leaders; return whether topics or their partitions have changed.

        ``of_most``: see `Brokers.find_leaders`.
        """
        before = self._seen()
        _again(self.brokers, self.topics, lambda: None, known=False, of_most=of_most)
        return self._seen() != before

    def _seen(self) -> list[object]:
        topology = self.brokers.topology
        return [(topology.ids.get(t), topology.partitions.get(t)) for t in self.topics]

    def _ask(self, which: int) -> Bounds:
        if self._version != self.brokers.topology.version:
            self._requests.clear()  # they name leaders, and their epochs
            self._version = self.brokers.topology.version
        if which not in self._requests:
            self._requests[which] = self._requests_for(which)
        found: Bounds = {name: {} for name in self.topics}
        requests = self._requests[which]
        answers = self.brokers.manager.run(_answers, self.brokers, requests, _listed_place)
        for (topic, partition), each in answers:
            found[topic][partition] = Bound(each.offset, each.leader_epoch)
        return found

    def _requests_for(self, which: int) -> list[tuple[int, Any]]:
        topology = self.brokers.topology
        topic_partitions = [
            (name, at) for name in self.topics for at in topology.partitions.get(name, ())
        ]
        if unknown := set(self.topics).difference(name for name, _ in topic_partitions):
            raise UnknownTopicOrPartitionError(", ".join(sorted(unknown)))

        def partition(topic_partition: TopicPartition) -> Any:
            return ListPartition(
                partition_index=topic_partition[1],
                current_leader_epoch=topology.epochs.get(topic_partition, -1),
                timestamp=which,
            )

        return [
            (
                node,
                ListOffsetsRequest(
                    replica_id=-1,
                    isolation_level=self.isolation,
                    topics=[ListTopic(name=name, partitions=some) for name, some in of.items()],
                    max_version=5,
                ),
            )
            for node, of in _by_leader(self.brokers, topic_partitions, partition).items()
        ]


def epoch_ends(brokers: Brokers, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the end offset of each partition's given leader epoch; -1: unknown.

    Raises KafkaError as :class:`BoundsReader` does.
    """
    topics = sorted({topic for topic, _ in epochs})

    def partition(topic_partition: TopicPartition) -> Any:
        return EpochPartition(
            partition=topic_partition[1],
            current_leader_epoch=brokers.topology.epochs.get(topic_partition, -1),
            leader_epoch=epochs[topic_partition],
        )

    def ask() -> dict[TopicPartition, int]:
        requests = [
            (
                node,
                OffsetForLeaderEpochRequest(
                    replica_id=-1,
                    topics=[EpochTopic(topic=name, partitions=some) for name, some in of.items()],
                    max_version=4,
                ),
            )
            for node, of in _by_leader(brokers, epochs, partition).items()
        ]
        answers = brokers.manager.run(_answers, brokers, requests, _epoch_place)
        return {topic_partition: each.end_offset for topic_partition, each in answers}

    found: dict[TopicPartition, int] = _again(brokers, topics, ask)
    return found


def _by_leader(
    brokers: Brokers,
    topic_partitions: Iterable[TopicPartition],
    partition: Callable[[TopicPartition], Any],
) -> ByNode:
    by_node: ByNode = {}
    for topic_partition in topic_partitions:
        node = brokers.leaders.get(topic_partition)
        if node is None:
            epoch = brokers.topology.epochs.get(topic_partition, -1)
            since = f" of epoch {epoch} or later, which it had before" if epoch >= 0 else ""
            topic, number = topic_partition
            raise LeaderNotAvailableError(f"{topic} partition {number} has no leader{since}")
        by_node.setdefault(node, {}).setdefault(topic_partition[0], []).append(
            partition(topic_partition)
        )
    return by_node


def _again(
    brokers: Brokers,
    topics: list[str],
    ask: Callable[[], Any],
    *,
    known: bool = True,
    of_most: bool = False,
) -> Any:
    """Ask until leaders answer, looking them up after each refusal; KafkaError after a while.

    ``known``: do not look them up first if all of them are known.
    """
    brokers.connect()
    deadline = time.monotonic() + SECONDS_MAX
    known = known and brokers.topology.partitions.keys() >= set(topics)
    while True:
        try:
            if not known:
                brokers.find_leaders(topics, of_most=of_most)
            return ask()
        except KafkaError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
        known = False
        brokers.turn(LOOK_AGAIN_SECONDS)


async def _answers(
    brokers: Brokers,
    requests: list[tuple[int, Any]],
    place_of: Callable[[Any, Any], TopicPartition],
) -> list[tuple[TopicPartition, Any]]:
    """Return each partition's answer; raise the first error."""
    answers = [brokers.send(request, node) for node, request in requests]
    found = []
    for answer in answers:
        for topic in (await answer).topics:
            for each in topic.partitions:
                partition = place_of(topic, each)
                if each.error_code:
                    raise for_code(each.error_code)(f"{partition[0]} partition {partition[1]}")
                found.append((partition, each))
    return found


def _listed_place(topic: Any, partition: Any) -> TopicPartition:
    return topic.name, partition.partition_index


def _epoch_place(topic: Any, partition: Any) -> TopicPartition:
    return topic.topic, partition.partition
