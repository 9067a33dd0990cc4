"""Writing and reading topics in tests; kafka-python reads, as a client that the service is not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

SECONDS_MAX = 180
"""For what a quiet machine does at once: a loaded one may take long, and only a fault takes so long."""

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Record:
    """A Kafka record. To be produced, it needs no coordinates; ``timestamp`` in ms."""

    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = field(default_factory=list)
    partition: int | None = None
    timestamp: int | None = None
    topic: str = ""
    offset: int = -1

    def header(self, name: str) -> bytes | None:
        """The last header of that name, None where there is none."""
        return next((value for each, value in reversed(self.headers) if each == name), None)


def until(test: Callable[[], Any], what: str = "a change") -> Any:
    """Wait until ``test`` gives something; returns it."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (found := test()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
    return found


def create_topics(bootstrap: str, partitions: dict[str, int], **settings: Any) -> None:
    """Create topics, and wait until they can be used.

    They keep everything: retention goes by the records' timestamps, and the broker deletes what is
    older than a week half a minute after its start.
    """
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap, **settings})
    kept = {"retention.ms": "-1"}
    new = [NewTopic(name, num_partitions=n, config=kept) for name, n in partitions.items()]
    for future in admin.create_topics(new, operation_timeout=SECONDS_MAX).values():
        future.result(SECONDS_MAX)
    until(lambda: all(_described(admin, list(partitions))), f"topics {list(partitions)}")


def make_topic(bootstrap: str, name: str, partitions: int = 1, **settings: Any) -> None:
    """Create a topic with settings (underscores for dots), and wait until the broker knows it."""
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"retention.ms": "-1"}
    config |= {key.replace("_", "."): str(value) for key, value in settings.items()}
    new = NewTopic(name, partitions, config=config)
    admin.create_topics([new], operation_timeout=SECONDS_MAX)[name].result(SECONDS_MAX)
    asked = ConfigResource(ResourceType.TOPIC, name)
    until(lambda: admin.describe_configs([asked])[asked].exception(SECONDS_MAX) is None, name)


def add_partitions(bootstrap: str, topic: str, count: int) -> None:
    """Give a topic so many partitions in all, and wait until the broker says that it has them."""
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(SECONDS_MAX)
    until(
        lambda: (
            len(admin.list_topics(topic, timeout=SECONDS_MAX).topics[topic].partitions) >= count
        ),
        f"{count} partitions of {topic}",
    )


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete a topic, and wait until the broker does not know it any more."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(SECONDS_MAX)
    until(lambda: topic not in admin.list_topics(timeout=SECONDS_MAX).topics, f"the end of {topic}")


def produce(bootstrap: str, topic: str, records: list[Record], **settings: Any) -> None:
    """Write records in order with confluent-kafka; returns when all are acknowledged."""
    from confluent_kafka import Producer

    errors: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            **settings,
        }
    )
    for record in records:
        while len(producer) > 50_000:
            producer.poll(0.05)
        placed = {"partition": record.partition, "timestamp": record.timestamp}
        producer.produce(
            topic,
            value=record.value,
            key=record.key,
            headers=record.headers,
            on_delivery=lambda error, _message: errors.append(error) if error else None,
            **{name: value for name, value in placed.items() if value is not None},
        )
    left = producer.flush(SECONDS_MAX)
    assert not left, f"{left} records were not acknowledged"
    assert not errors, f"{topic}: {errors[0]}"


def read_all(
    bootstrap: str,
    topic: str,
    isolation: str = "read_committed",
    *,
    limit_s: float = SECONDS_MAX,
    **settings: Any,
) -> list[Record]:
    """All records up to the ends as they are now, partition by partition, in order of offset.

    With read_committed the end is the first open transaction's begin; markers of transactions have
    offsets, so the position tells when a partition is done, not the number of records.
    """
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","),
        isolation_level=isolation,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        **settings,
    )
    deadline = time.monotonic() + limit_s
    try:
        plain = "" if settings else bootstrap
        numbers = _partitions(consumer, plain, topic, deadline)
        places = [TopicPartition(topic, each) for each in numbers]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        consumer.seek_to_beginning(*places)
        found: dict[Any, list[Record]] = {place: [] for place in places}
        left = set(places)
        while left := {place for place in left if consumer.position(place) < ends[place]}:
            assert time.monotonic() < deadline, f"{topic}: {left} not read within {limit_s} s"
            for place, messages in consumer.poll(timeout_ms=200).items():
                found[place] += [_record(each) for each in messages if each.offset < ends[place]]
        return [record for place in places for record in found[place]]
    finally:
        consumer.close()


def read_by_librdkafka(bootstrap: str, topic: str, count: int) -> list[Record]:
    """So many records, by partition in order of offset: kafka-python cannot decompress all."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    consumer = Consumer(settings)
    deadline = time.monotonic() + SECONDS_MAX
    try:
        there = consumer.list_topics(topic, SECONDS_MAX).topics[topic].partitions
        consumer.assign([TopicPartition(topic, at, OFFSET_BEGINNING) for at in there])
        messages: list[Any] = []
        while len(messages) < count:
            assert time.monotonic() < deadline, f"{topic}: {len(messages)} of {count}"
            messages += consumer.consume(count, 0.2)
    finally:
        consumer.close()
    found = [
        Record(
            m.key(),
            m.value(),
            m.headers() or [],
            m.partition(),
            m.timestamp()[1],
            topic,
            m.offset(),
        )
        for m in messages
        if m.error() is None
    ]
    assert len(found) == len(messages)
    return sorted(found, key=lambda record: (record.partition, record.offset))


def wait_for_records(
    bootstrap: str, topic: str, count: int, *, limit_s: float = SECONDS_MAX, **settings: Any
) -> list[Record]:
    """Read the topic again and again until it has ``count`` records; fails at the limit."""
    deadline = time.monotonic() + limit_s
    while True:
        asked = time.monotonic()
        records = read_all(bootstrap, topic, limit_s=limit_s, **settings)
        if len(records) >= count:
            return records
        assert time.monotonic() < deadline, f"{topic}: {len(records)} of {count} in {limit_s} s"
        took = time.monotonic() - asked
        time.sleep(min(1, max(0.1, 4 * took)))  # the cores are for who writes them


def _partitions(consumer: Any, bootstrap: str, topic: str, deadline: float) -> list[int]:
    """The numbers of a topic's partitions; ``consumer`` is asked if there is no ``bootstrap``.

    It requests all topics, which takes a broker with a thousand of them as long as all the rest.
    """
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap}) if bootstrap else None
    while True:
        if admin is None:
            found = consumer.partitions_for_topic(topic)
        else:
            (found,) = _described(admin, [topic])
        if found:
            return sorted(found)
        assert time.monotonic() < deadline, f"there is no topic {topic}"
        time.sleep(0.1)


def _described(admin: Any, topics: list[str]) -> list[list[int]]:
    """The numbers of the partitions of each topic; none of a topic that is not there."""
    from confluent_kafka import KafkaError, KafkaException, TopicCollection

    asked = admin.describe_topics(TopicCollection(topics), request_timeout=SECONDS_MAX)
    found = []
    for future in asked.values():
        try:
            found.append([each.id for each in future.result(SECONDS_MAX).partitions])
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
            found.append([])
    return found


def _record(message: Any) -> Record:
    return Record(
        key=message.key,
        value=message.value,
        headers=list(message.headers or []),
        partition=message.partition,
        timestamp=message.timestamp,
        topic=message.topic,
        offset=message.offset,
    )
