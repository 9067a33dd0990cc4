"""Lag in records and in seconds, by real records' timestamps."""

from types import SimpleNamespace

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.config.load import at_address
from streaming.kafka.lag import Lag, LagReader
from streaming.service.metrics.lag_watch import LagWatch
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


def test_what_an_open_transaction_holds_back_is_unread(broker, topic):
    """A producer that was killed, or hangs, holds back everybody's records behind its own."""
    settings = at_address(broker.bootstrap)
    hanging = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    hanging.init_transactions(SECONDS_MAX)
    hanging.begin_transaction()
    hanging.produce(topic, b"v", b"k", 1, timestamp=2_001_000)
    hanging.flush(SECONDS_MAX)
    produce(broker.bootstrap, topic, [Record(b"k", b"v", partition=1, timestamp=2_003_000)])
    reader = LagReader(settings, (topic,))
    try:
        assert reader({topic: {"0": 3, "1": 2}}) == Lag(2, 2.0)
    finally:
        reader.close()
    commands = f"{topic}.commands"
    create_topics(broker.bootstrap, {commands: 1})
    pipeline = SimpleNamespace(
        name="p",
        last_report=None,
        checkpoint=SimpleNamespace(read_up_to=lambda: {topic: {"0": 3, "1": 2}}),
        config=SimpleNamespace(
            **{name: getattr(settings, name) for name in ("kafka", "hide", "source")},
            pipelines={"p": SimpleNamespace(input=[topic], commands=commands)},
        ),
    )
    watch = LagWatch([pipeline])
    watch._look_at(pipeline)
    assert watch.of("p").records == 2
    hanging.abort_transaction(SECONDS_MAX)
