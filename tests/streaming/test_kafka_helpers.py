"""The helpers that other tests trust: what is written is read back, and only what is committed."""

from __future__ import annotations

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all, wait_for_records


def test_records_come_back_as_they_were_written(broker, topic_prefix):
    topic = topic_prefix + "bytes"
    create_topics(broker.bootstrap, {topic: 2})
    written = [
        Record(b"k", b"v", [("a", b"1"), ("a", None), ("b", b"\xff\x00")], 0, 1_700_000_000_123),
        Record(None, None, [], 0, 5),
        Record(b"", b"", [("", b"")], 0, 6),
        Record(b"other", b"partition", [], 1, 7),
    ]
    produce(broker.bootstrap, topic, written)
    read = read_all(broker.bootstrap, topic)
    assert [(r.key, r.value, r.headers, r.partition, r.timestamp) for r in read] == [
        (r.key, r.value, r.headers, r.partition, r.timestamp) for r in written
    ]
    assert [(r.topic, r.offset) for r in read] == [(topic, 0), (topic, 1), (topic, 2), (topic, 0)]
    assert read[0].header("a") is None
    assert read[0].header("b") == b"\xff\x00"


def test_only_committed_transactions_are_read(broker, topic_prefix):
    from confluent_kafka import Producer

    topic = topic_prefix + "transactions"
    create_topics(broker.bootstrap, {topic: 1})
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": topic_prefix + "writer"}
    )
    producer.init_transactions(30)
    for values, end in (
        ((b"1", b"2"), producer.commit_transaction),
        ((b"never",), producer.abort_transaction),
        ((b"3",), producer.commit_transaction),
    ):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        producer.flush(30)
        end(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    assert [r.value for r in read_all(broker.bootstrap, topic)] == [b"1", b"2", b"3"]
    everything = read_all(broker.bootstrap, topic, "read_uncommitted")
    assert [r.value for r in everything] == [b"1", b"2", b"never", b"3", b"open"]
    producer.abort_transaction(30)


def test_an_empty_topic_reads_as_nothing(broker, topic_prefix):
    create_topics(broker.bootstrap, {topic_prefix + "empty": 3})
    assert read_all(broker.bootstrap, topic_prefix + "empty") == []


def test_waiting_has_a_limit(broker, topic_prefix):
    topic = topic_prefix + "few"
    create_topics(broker.bootstrap, {topic: 1})
    produce(broker.bootstrap, topic, [Record(value=b"one")])
    assert len(wait_for_records(broker.bootstrap, topic, 1)) == 1
    with pytest.raises(AssertionError, match="1 of 2|not read within 1 s"):
        wait_for_records(broker.bootstrap, topic, 2, limit_s=1)
