"""Several Kafka brokers on this machine that replicate, each a broker and a controller (KRaft)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from typing import Any, Self

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.ports import HOST, free_port
from tests.kafka_helpers import SECONDS_MAX, until

REPLICAS = 3
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "auto.leader.rebalance.enable": "false",
    "log.retention.ms": "-1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}

Leaders = dict[int, int]
"""The leader of each partition of a topic."""


class KafkaCluster:
    """Three brokers, numbered from 1, in order of `brokers`; a context manager.

    A broker that was stopped or killed is started again by its own `start`, with its data and port.
    """

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        controllers = {number: free_port() for number in range(1, REPLICAS + 1)}
        voters = ",".join(f"{number}@{HOST}:{port}" for number, port in controllers.items())
        common = {**SETTINGS, "controller.quorum.voters": voters, **(properties or {})}
        self.brokers = {
            number: EmbeddedBroker(
                controller_port=port, properties={**common, "node.id": str(number)}
            )
            for number, port in controllers.items()
        }
        self._stack = ExitStack()

    @property
    def bootstrap(self) -> str:
        """Addresses for clients."""
        return ",".join(each.bootstrap for each in self.brokers.values())

    @cached_property
    def admin(self) -> AdminClient:
        """An admin client."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create_topic(self, name: str, replicas: Sequence[Sequence[int]], **config: str) -> None:
        """Create a topic; ``replicas`` are the brokers of each partition, the preferred one first."""
        assigned = [list(each) for each in replicas]
        new = NewTopic(name, len(assigned), replica_assignment=assigned, config=config)
        self.admin.create_topics([new], operation_timeout=SECONDS_MAX)[name].result(SECONDS_MAX)
        until(lambda: -1 not in self.leaders(name).values(), f"leaders of {name}")

    def leaders(self, topic: str) -> Leaders:
        """Who leads now."""
        return {number: each.leader for number, each in self._partitions(topic).items()}

    def elect_preferred(self, topic: str) -> None:
        """Give each partition its preferred leader, as the end of a rolling restart does."""
        partitions = self._partitions(topic)
        until(
            lambda: all(len(p.isrs) == len(p.replicas) for p in self._partitions(topic).values()),
            f"replicas of {topic}",
        )
        wanted = [TopicPartition(topic, number) for number in partitions]
        self.admin.elect_leaders(ElectionType.PREFERRED, wanted).result(SECONDS_MAX)
        until(
            lambda: all(p.leader == p.replicas[0] for p in self._partitions(topic).values()),
            f"preferred leaders of {topic}",
        )

    def until_in_sync(self) -> None:
        """Wait until every replica of every topic has all."""
        until(
            lambda: all(
                len(each.isrs) == len(each.replicas) and each.leader != -1
                for topic in self.admin.list_topics(timeout=SECONDS_MAX).topics.values()
                for each in topic.partitions.values()
            ),
            "replicas in sync",
        )

    def elect_all_preferred(self) -> None:
        """Give every partition of every topic its preferred leader."""
        self.until_in_sync()
        self.admin.elect_leaders(ElectionType.PREFERRED, None).result(SECONDS_MAX)

    def _partitions(self, topic: str) -> dict[int, Any]:
        return dict(self.admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions)

    def __enter__(self) -> Self:
        with ThreadPoolExecutor(REPLICAS) as threads, self._stack:
            for each in self.brokers.values():
                self._stack.callback(each.close)
            list(threads.map(EmbeddedBroker.start, self.brokers.values()))
            until(
                lambda: len(self.admin.list_topics(timeout=SECONDS_MAX).brokers) == REPLICAS,
                "all brokers",
            )
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
