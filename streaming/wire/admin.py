"""Brokers, topics and their settings, read and changed over our own connections."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafka.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InvalidConfigurationError,
    InvalidTopicError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    PolicyViolationError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DescribeConfigsRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest

from streaming.wire.brokers import GROUP, SECONDS_MAX, TRANSACTION, Brokers

TOPICS_SECONDS_MAX = 30
"""How long Kafka may take to create or change a topic."""

NOT_CONTROLLER = 41
TOPIC, BROKER = 2, 4
"""Kafka's numbers of resources with settings."""

REFUSALS = (
    TopicAuthorizationFailedError,
    ClusterAuthorizationFailedError,
    PolicyViolationError,
    InvalidConfigurationError,
    InvalidTopicError,
)
"""Errors for which creating a topic is not tried again."""

SAYS_ENOUGH = (KafkaConnectionError, KafkaTimeoutError, SaslAuthenticationFailedError)
"""Errors whose text needs no name before it."""

RIGHTS_SECONDS_MAX = 10
OPERATIONS = {3: "Read", 4: "Write", 5: "Create", 6: "Delete", 7: "Alter", 8: "Describe"}
"""Kafka's numbers of the operations that are checked."""

NewRequest = CreateTopicsRequest.CreatableTopic
METADATA = partial(MetadataRequest, topics=None, allow_auto_topic_creation=False, max_version=9)


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a cluster has: topics with their numbers of partitions, brokers with their addresses."""

    topics: dict[str, int]
    brokers: dict[int, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made, with as many replicas as the brokers' own setting says."""

    name: str
    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)


def cluster_of(brokers: Brokers, seconds: float = SECONDS_MAX) -> Cluster:
    """Return a broker's view of the cluster; KafkaError if none answers in time."""
    answer = brokers.ask(METADATA, lambda _: (), seconds=seconds)
    return Cluster(
        {topic.name: len(topic.partitions) for topic in answer.topics if topic.partitions},
        {broker.node_id: (broker.host, broker.port) for broker in answer.brokers},
    )


def create(brokers: Brokers, new: Iterable[NewTopic]) -> dict[str, KafkaError | None]:
    """Create topics; return each one's error, or None if it was created."""
    wanted = [
        NewRequest(
            name=each.name,
            num_partitions=each.partitions,
            replication_factor=-1,
            assignments=[],
            configs=[
                NewRequest.CreatableTopicConfig(name=name, value=text)
                for name, text in each.settings.items()
            ],
        )
        for each in new
    ]
    request = partial(
        CreateTopicsRequest, topics=wanted, timeout_ms=TOPICS_SECONDS_MAX * 1000, max_version=6
    )
    controller = brokers.ask(METADATA, lambda _: ()).controller_id
    answer = brokers.ask(request, _passing, node=controller)
    return {
        topic.name: for_code(topic.error_code)(topic.error_message or "")
        if topic.error_code
        else None
        for topic in answer.topics
    }


def settings_of(
    brokers: Brokers, names: Iterable[str], kind: int = TOPIC
) -> dict[str, dict[str, str]]:
    """Return the settings of topics, or of one broker, that this user may read."""
    wanted = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        for name in names
    ]
    if not wanted:
        return {}
    node = int(wanted[0].resource_name) if kind == BROKER else None
    request = partial(DescribeConfigsRequest, resources=wanted, max_version=3)
    answer = brokers.ask(request, lambda _: (), node=node)
    return {
        result.resource_name: {
            each.name: each.value for each in result.configs if each.value is not None
        }
        for result in answer.results
        if not result.error_code
    }


def delete_before(brokers: Brokers, topic: str, offsets: Mapping[int, int]) -> None:
    """Delete a topic's records below an offset of each partition; KafkaError if it fails."""
    brokers.find_leaders([topic])
    by_node: dict[int, list[Any]] = {}
    asked = DeleteRecordsRequest.DeleteRecordsTopic
    for partition, offset in sorted(offsets.items()):
        node = brokers.leaders.get((topic, partition))
        if node is None:
            raise UnknownTopicOrPartitionError(f"{topic} partition {partition} has no leader")
        part = asked.DeleteRecordsPartition(partition_index=partition, offset=offset)
        by_node.setdefault(node, []).append(part)
    for node, partitions in by_node.items():
        request = partial(
            DeleteRecordsRequest,
            topics=[asked(name=topic, partitions=partitions)],
            timeout_ms=TOPICS_SECONDS_MAX * 1000,
            max_version=1,
        )
        brokers.ask(
            request,
            lambda answer: [part.error_code for of in answer.topics for part in of.partitions],
            node=node,
        )


def allowed_on(brokers: Brokers, topics: Iterable[str]) -> dict[str, set[str]]:
    """Return the operations that this user may do on topics, named as in `kafka-acls` (KIP-430).

    Topics that are missing, or for which the broker returns no operations, are left out.
    """
    request = partial(
        MetadataRequest,
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(topics)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        max_version=9,
    )
    found: dict[str, set[str]] = {}
    for topic in brokers.ask(request, lambda _: (), seconds=RIGHTS_SECONDS_MAX).topics:
        if topic.error_code == TopicAuthorizationFailedError.errno:
            found[topic.name] = set()
        elif not topic.error_code and topic.authorized_operations is not None:
            found[topic.name] = {
                OPERATIONS[each] for each in topic.authorized_operations if each in OPERATIONS
            }
    return found


def may_read_group(brokers: Brokers, group: str) -> bool:
    """Return whether this user may describe a group (implied by read); it need not exist."""
    request = partial(FindCoordinatorRequest, key=group, key_type=GROUP.value, max_version=3)
    answer = brokers.ask(request, lambda _: (), seconds=RIGHTS_SECONDS_MAX)
    return bool(answer.error_code != GroupAuthorizationFailedError.errno)


def may_write_as(brokers: Brokers, transactional_id: str) -> bool:
    """Return whether this user may begin a producer under an id that nobody else uses."""
    request = partial(
        InitProducerIdRequest,
        transactional_id=transactional_id,
        transaction_timeout_ms=RIGHTS_SECONDS_MAX * 1000,
        max_version=3,
    )
    coordinator = (TRANSACTION, transactional_id)
    try:
        brokers.ask(
            request, lambda answer: [answer.error_code], coordinator, seconds=RIGHTS_SECONDS_MAX
        )
    except TransactionalIdAuthorizationFailedError:
        return False
    except KafkaError:
        pass  # a refusal then comes with the work
    return True


def _passing(answer: Any) -> list[int]:
    """Return an answer's NotController errors; a request about topics is repeated for no other."""
    return [topic.error_code for topic in answer.topics if topic.error_code == NOT_CONTROLLER]


def reason(error: BaseException) -> str:
    """Return Kafka's reason for an error, for a message."""
    said = ", ".join(str(arg) for arg in error.args if str(arg).strip())
    if number := re.fullmatch(r"(\d+) (E[A-Z]+)", said):
        known = getattr(errno, number.group(2), None)
        return os.strerror(known or int(number.group(1)))
    said = re.sub(r"^\w+Error: ", "", said)
    if isinstance(error, SAYS_ENOUGH) and said:
        return said
    name = getattr(error, "message", "") or type(error).__name__
    return f"{name} ({said})" if said else str(name)
