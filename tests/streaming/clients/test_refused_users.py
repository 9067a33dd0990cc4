"""Clients whose password is wrong: nothing arrives, and they say why."""

import logging
import time
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from streaming import LabelledProducer, OrderedConsumer
from streaming.clients import connecting
from streaming.clients.connecting import Refusals
from streaming.errors import KafkaUnavailable

SECONDS_MAX = 180
WRONG = "geheim-99"


@pytest.fixture
def kafka(secure_broker):
    properties = {**secure_broker.properties("sasl"), "sasl.password": WRONG}
    return {"bootstrap.servers": secure_broker.sasl, **properties}


def test_a_reader_that_kafka_refuses_says_so(kafka, topic_prefix, caplog):
    deadline = time.monotonic() + SECONDS_MAX
    with OrderedConsumer(kafka, [topic_prefix + "out"], group=topic_prefix) as reader:
        while "authentication with Kafka fails" not in caplog.text:
            assert reader.poll(0.2) is None
            assert time.monotonic() < deadline
    assert "uthentication failed" in caplog.text
    assert WRONG not in caplog.text


def test_a_producer_that_kafka_refuses_says_why_nothing_was_taken(kafka, topic_prefix):
    producer = LabelledProducer(kafka, topic_prefix + "in")
    producer.send("a", b"first")
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        with pytest.raises(KafkaUnavailable, match="Kafka has not taken 1 messages") as told:
            producer.flush(2)
        if "since TLS or authentication fails" in told.value.message:
            break
        assert time.monotonic() < deadline, told.value
    assert "uthentication failed" in told.value.message
    assert "make a new producer" in told.value.remedy
    assert WRONG not in str(told.value)


def test_a_refusal_is_logged_once_a_minute_and_other_errors_where_they_were(monkeypatch, caplog):
    now_s = 1000.0
    monkeypatch.setattr(connecting, "time", SimpleNamespace(monotonic=lambda: now_s))
    caplog.set_level(logging.WARNING, "streaming.librdkafka")
    refusals = Refusals()
    refusals(KafkaError(KafkaError._ALL_BROKERS_DOWN, "all down"))
    assert [(each.name, each.message) for each in caplog.records] == [
        ("streaming.librdkafka", "all down")
    ]
    assert refusals.recent() == ""
    for now_s in (1001.0, 1030.0, 1070.0):
        refusals(KafkaError(KafkaError._AUTHENTICATION, f"no {now_s}"))
    said = [each.message for each in caplog.records if each.name == "streaming.clients"]
    assert said == [
        f"TLS or authentication with Kafka fails; this client tries again: no {s}"
        for s in (1001.0, 1070.0)
    ]
    assert refusals.recent() == "no 1070.0"
    now_s = 1131.0
    assert refusals.recent() == ""
