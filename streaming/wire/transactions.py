"""Requests of a transactional producer (KIP-98), and their answers.

Each function returns a Question for `Brokers.ask`: a request, and a function that reads the errors
from its answer. Every broker since 2.5 knows these versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from kafka.errors import KafkaError, for_code
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from streaming.places import TopicPartition
from streaming.wire.brokers import Codes

NOT_ATTEMPTED = 55
"""The error code of a partition that was not added because another one failed."""


class Question(NamedTuple):
    """A request, made anew each time it is sent, and what reads an answer's errors."""

    request: Callable[[], Any]
    codes: Codes


class Session(NamedTuple):
    """A producer's session: its transactional id (None without transactions), its id and epoch."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int


def begin_session(transactional_id: str | None, timeout_ms: int) -> Question:
    """Ask for a producer's id and epoch; the producer that had the transactional id is fenced."""
    request = partial(
        InitProducerIdRequest,
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        max_version=4,
    )
    return Question(request, _code)


def add_partitions(session: Session, places: Iterable[TopicPartition]) -> Question:
    """Let the transaction write to these partitions."""
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    partitions: dict[str, list[int]] = {}
    for name, partition in sorted(places):
        partitions.setdefault(name, []).append(partition)
    request = partial(
        AddPartitionsToTxnRequest,
        v3_and_below_transactional_id=session.transactional_id,
        v3_and_below_producer_id=session.producer_id,
        v3_and_below_producer_epoch=session.producer_epoch,
        v3_and_below_topics=[topic(name=n, partitions=p) for n, p in partitions.items()],
        max_version=3,
    )
    return Question(request, _errors_of_added)


def add_group(session: Session, group: str) -> Question:
    """Let the transaction commit an offset of a group."""
    request = partial(AddOffsetsToTxnRequest, **session._asdict(), group_id=group, max_version=3)
    return Question(request, _code)


def commit_offset(session: Session, group: str, topic: str, offset: int, metadata: str) -> Question:
    """Commit a group's offset of a topic's partition 0 within the transaction; ask the group."""
    of_topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
    place = of_topic.TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    request = partial(
        TxnOffsetCommitRequest,
        **session._asdict(),
        group_id=group,
        topics=[of_topic(name=topic, partitions=[place])],
        max_version=3,
    )
    return Question(request, _errors_of_committed)


def end(session: Session, *, committed: bool) -> Question:
    """End the transaction."""
    request = partial(EndTxnRequest, **session._asdict(), committed=committed, max_version=3)
    return Question(request, _code)


def committed_offset(group: str, topic: str, *, stable: bool = True) -> Question:
    """Ask a group for its committed offset of a topic's partition 0; see :func:`offset_in`.

    ``stable``: the broker refuses, retriably, while an open transaction commits another one.
    """
    of_topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
    request = partial(
        OffsetFetchRequest,
        group_id=group,
        topics=[of_topic],
        require_stable=stable,
        min_version=7,
        max_version=7,
    )
    return Question(
        request,
        lambda answer: [answer.error_code, *(each.error_code for each in _partitions(answer))],
    )


def offset_in(answer: Any) -> tuple[int, str]:
    """Return the offset, below 0 where there is none, and its metadata."""
    place = next(_partitions(answer))
    return place.committed_offset, place.metadata


def _code(answer: Any) -> list[int]:
    return [answer.error_code]


def _errors_of_added(answer: Any) -> list[KafkaError]:
    """Return the errors of AddPartitionsToTxn with their topics, causes before consequences."""
    found = [
        (result.partition_error_code, topic.name)
        for topic in answer.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    ]
    found.sort(key=lambda each: each[0] == NOT_ATTEMPTED)
    return [for_code(code)(topic) for code, topic in found if code]


def _errors_of_committed(answer: Any) -> list[KafkaError]:
    """Return the errors of TxnOffsetCommit with their topics."""
    return [
        for_code(each.error_code)(topic.name)
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code
    ]


def _partitions(answer: Any) -> Iterator[Any]:
    return (partition for topic in answer.topics for partition in topic.partitions)
