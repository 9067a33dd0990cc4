"""Lag in records and in seconds, by real records' timestamps."""

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.config.load import at_address
from streaming.kafka.lag import Lag, LagReader
from tests.kafka_helpers import SECONDS_MAX, Record, create_topics, produce


@pytest.fixture
def topic(broker, topic_prefix):
    name = f"{topic_prefix}in"
    create_topics(broker.bootstrap, {name: 2})
    stamps = {0: [1_000_000, 1_004_000, 1_002_500], 1: [2_000_000, 2_000_500]}
    for partition, times in stamps.items():
        records = [Record(b"k", b"v", partition=partition, timestamp=each) for each in times]
        produce(broker.bootstrap, name, records)
    return name


def test_deleted_records_of_what_was_not_read_yet_do_not_count(broker, topic):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        future.result(SECONDS_MAX)
    reader = LagReader(at_address(broker.bootstrap), (topic,))
    try:
        assert reader({}).records == 3
    finally:
        reader.close()


@pytest.mark.parametrize(
    ("read", "lag"),
    [
        ({}, Lag(5, 4.0)),
        ({"0": 1, "1": 0}, Lag(4, 0.5)),
        ({"0": 2, "1": 1}, Lag(2, 1.5)),
        ({"0": 3, "1": 1}, Lag(1, 0.0)),
        ({"0": 3, "1": 2}, Lag(0, 0.0)),
    ],
)
def test_from_the_first_unread_record_to_the_newest(broker, topic, read, lag, monkeypatch):
    monkeypatch.setattr("streaming.kafka.lag.FIRST_SECONDS_MAX", SECONDS_MAX)
    reader = LagReader(at_address(broker.bootstrap), (topic,))
    try:
        assert reader({topic: read}) == lag
        assert reader({topic: read}) == lag, "asked again over the same connections"
    finally:
        reader.close()
