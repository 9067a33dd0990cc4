"""Waiting for records at a real broker: limits are far beyond what is waited for."""

import threading
import time

import pytest
from confluent_kafka import Producer

from streaming.source import waiting
from streaming.source.pacing import Pace
from streaming.source.positions import offsets_in
from streaming.source.reader import Inputs, KafkaReader
from streaming.source.waiting import Waiting
from tests.kafka_helpers import Record, produce
from tests.streaming.source.readings import reading_of

SECONDS_MAX = 60


@pytest.fixture
def patient(monkeypatch):
    """Whoever waits does so until there is something: only a fault reaches these limits."""
    monkeypatch.setattr("streaming.source.pacing.LONGEST_SECONDS", SECONDS_MAX)
    monkeypatch.setattr("streaming.source.reader.REFRESH_SECONDS", SECONDS_MAX)
    monkeypatch.setattr(waiting, "STAYS_MS", 300)  # so the broker answers with nothing, too


@pytest.fixture
def reader(broker, topic):
    inputs = Inputs(topics={topic: 0}, properties={"bootstrap.servers": broker.bootstrap})
    made = KafkaReader(inputs, reading_of(topic), pace=Pace(due_ms=lambda: None))
    yield made
    made.close()


def later(reader, start):
    """What the reader finds, in a thread of its own, which has begun to wait."""
    found = []
    thread = threading.Thread(target=lambda: found.append(reader.latest(start)), daemon=True)
    thread.start()
    deadline = time.monotonic() + SECONDS_MAX
    while reader._waiting is None or not reader._waiting.in_flight:
        assert thread.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return thread, found


@pytest.mark.usefixtures("patient")
def test_a_source_waits_until_a_record_has_come(broker, topic, reader):
    start = reader.first()
    for count in (1, 2):
        thread, found = later(reader, start)
        produce(broker.bootstrap, topic, [Record(b"k", b"v", partition=count)])
        thread.join(SECONDS_MAX)
        assert offsets_in(found[0])[topic][str(count)] == 1
        start = found[0]


@pytest.mark.usefixtures("patient")
def test_what_is_in_an_open_transaction_has_not_come(broker, topic, reader):
    start = reader.first()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, b"v", b"k", partition=0)
    producer.flush(SECONDS_MAX)
    thread, found = later(reader, start)
    assert found == []
    producer.commit_transaction(SECONDS_MAX)
    thread.join(SECONDS_MAX)
    assert offsets_in(found[0])[topic]["0"] == 2


@pytest.mark.usefixtures("patient")
def test_the_end_of_a_query_ends_its_waiting(reader):
    start = reader.first()
    thread, found = later(reader, start)
    reader._pace.ended.set()
    thread.join(SECONDS_MAX)
    assert found == [start]


def test_a_broker_that_is_not_there_is_waited_for(brokers, topic):
    """It looks again with new connections; who waits looks for itself meanwhile."""
    brokers.settings["bootstrap_servers"] = ["localhost:1"]
    brokers.reset()
    waits = Waiting(brokers)
    waits({topic: {"0": 0}, f"#{topic}": {"id": "", "epochs": {}}}, 0.2, threading.Event())
    assert not waits.in_flight
    assert not waits.busy_nodes
