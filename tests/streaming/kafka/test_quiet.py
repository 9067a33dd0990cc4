"""What librdkafka says of a fenced producer or an absent broker is not shown, nor in the way."""

import logging
import subprocess
import sys

import pytest
from confluent_kafka import KafkaException, Producer

from streaming.kafka import connection
from tests.kafka_helpers import create_topics

INTERRUPTED = """
import os, random, signal, threading
from confluent_kafka import Consumer, Producer
from streaming.kafka import connection

nowhere = {"bootstrap.servers": "127.0.0.1:1", "reconnect.backoff.ms": 9}
consumer = Consumer({**nowhere, "group.id": "g"}, **connection.quiet())
producer = Producer(nowhere, **connection.quiet())
for call in (consumer.poll, producer.poll) * 10:
    threading.Timer(random.random() / 5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            call(0.1)
    except KeyboardInterrupt:
        pass
"""
"""Ctrl-C again and again while there is no broker; status 1 where it ends a call otherwise."""


def test_an_interrupt_is_one_while_the_broker_is_away():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], timeout=120, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_fenced_producers_own_lines_are_not_shown(broker, topic_prefix, caplog, monkeypatch):
    """The error that it raises says it; librdkafka's line comes as critical."""
    create_topics(broker.bootstrap, {f"{topic_prefix}t": 1})
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic_prefix}id"}
    first, second = (Producer(settings, **connection.quiet()) for _ in range(2))
    for each in (first, second):
        each.init_transactions(30)
    monkeypatch.setattr(logging.getLogger("streaming"), "propagate", True)
    first.begin_transaction()
    first.produce(f"{topic_prefix}t", b"v")
    with pytest.raises(KafkaException):
        first.commit_transaction(30)
    first.poll(1)
    assert caplog.records == []
