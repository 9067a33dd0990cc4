"""Produce requests: record batches for partitions of one leader, and its answer about each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kafka.protocol.producer import ProduceRequest

from streaming.places import TopicPartition

ALL_REPLICAS = -1

Topic = ProduceRequest.TopicProduceData
Partition = Topic.PartitionProduceData


def produce(
    batches: Mapping[TopicPartition, bytes], transactional_id: str | None, seconds: float
) -> Any:
    """Return a request that sends record batches; the broker has ``seconds`` to replicate them."""
    topics: dict[str, list[Any]] = {}
    for (topic, partition), data in batches.items():
        topics.setdefault(topic, []).append(Partition(index=partition, records=data))
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=ALL_REPLICAS,
        timeout_ms=round(seconds * 1000),
        topic_data=[
            Topic(name=name, partition_data=partitions) for name, partitions in topics.items()
        ],
        max_version=11,
    )


def results(answer: Any) -> Iterator[tuple[TopicPartition, Any]]:
    """Yield each partition's result: `error_code`, `record_errors`, …"""
    for topic in answer.responses:
        for each in topic.partition_responses:
            yield (topic.name, each.index), each
