"""Fetch requests: record batches of partitions that one broker leads, read_committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kafka.protocol.consumer import FetchRequest

from streaming.places import TopicPartition
from streaming.wire.bounds import READ_COMMITTED
from streaming.wire.topology import id_of

BY_NAME, BY_ID = 12, 13
"""Versions of the request with topics' names, and with their ids."""
WAIT_MS = 500
"""How long a broker waits for records that do not exist yet; requested offsets normally exist."""
RESPONSE_BYTES_MAX = 8 * 2**20

Topic = FetchRequest.FetchTopic
Partition = Topic.FetchPartition


class Part(NamedTuple):
    """A request for one partition; ``id``: the topic's, "" if it has none."""

    home: TopicPartition
    id: str
    epoch: int
    offset: int
    bytes_max: int


def fetch(parts: Iterable[Part], *, wait_ms: int = 0, bytes_max: int = RESPONSE_BYTES_MAX) -> Any:
    """Return a request for these parts; it names topics by their ids if all have one.

    ``wait_ms``: how long a broker waits for new records; WAIT_MS if it is 0. ``bytes_max``: the
    answer's; an answer with records has at least one complete batch.
    """
    topics: dict[str, Any] = {}
    are_known = True
    for each in parts:
        name, partition = each.home
        are_known = are_known and bool(each.id)
        topic = topics.setdefault(name, Topic(topic=name, topic_id=id_of(each.id), partitions=[]))
        topic.partitions.append(
            Partition(
                partition=partition,
                current_leader_epoch=each.epoch,
                fetch_offset=each.offset,
                partition_max_bytes=each.bytes_max,
            )
        )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms or WAIT_MS,
        min_bytes=1,
        max_bytes=bytes_max,
        isolation_level=READ_COMMITTED,
        session_id=0,
        session_epoch=-1,
        topics=list(topics.values()),
        forgotten_topics_data=[],
        max_version=BY_ID if are_known else BY_NAME,
    )


def results(answer: Any, parts: Iterable[Part]) -> Iterator[tuple[TopicPartition, Any]]:
    """Yield each partition's result: `error_code`, `records`, …"""
    names = {id_of(each.id): each.home[0] for each in parts if each.id}
    for topic in answer.responses:
        for each in topic.partitions:
            yield (names.get(topic.topic_id, topic.topic), each.partition_index), each


def aborted(result: Any) -> list[tuple[int, int]]:
    """Return the aborted transactions in a result: a producer's id, and the first offset."""
    return [(each.producer_id, each.first_offset) for each in result.aborted_transactions or ()]
