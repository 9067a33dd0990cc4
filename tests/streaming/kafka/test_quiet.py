"""What librdkafka says of a fenced producer or an absent broker is not shown, nor in the way."""

import logging
import subprocess
import sys

import pytest
from confluent_kafka import KafkaException, Producer

from streaming.kafka import connection
from tests.kafka_helpers import create_topics

INTERRUPTED = """
import os, random, signal, sys, threading
from confluent_kafka import Consumer, Producer
from streaming.kafka import connection

to = {"bootstrap.servers": sys.argv[1], "reconnect.backoff.ms": 9}
consumer = connection.client(Consumer, {**to, "group.id": "g"})
producer = connection.client(Producer, to)

def send():
    producer.produce(sys.argv[2], b"v", on_delivery=lambda error, message: None)
    producer.flush(0.5)

for call in (lambda: consumer.poll(0.1), lambda: producer.poll(0.1), send) * 7:
    threading.Timer(0.01 + random.random() / 5, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            call()
    except KeyboardInterrupt:
        pass
"""
"""Ctrl-C again and again within librdkafka's calls; status 1 where it ends one otherwise."""


@pytest.mark.parametrize("is_away", [True, False])
def test_an_interrupt_is_one_within_librdkafka(broker, topic_prefix, is_away):
    create_topics(broker.bootstrap, {f"{topic_prefix}t": 1})
    to = "127.0.0.1:1" if is_away else broker.bootstrap
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, to, f"{topic_prefix}t"],
        timeout=120,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_fenced_producers_own_lines_are_not_shown(broker, topic_prefix, caplog, monkeypatch):
    """The error that it raises says it; librdkafka's line comes as critical."""
    create_topics(broker.bootstrap, {f"{topic_prefix}t": 1})
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic_prefix}id"}
    first, second = (connection.client(Producer, settings) for _ in range(2))
    for each in (first, second):
        each.init_transactions(30)
    monkeypatch.setattr(logging.getLogger("streaming"), "propagate", True)
    first.begin_transaction()
    first.produce(f"{topic_prefix}t", b"v")
    with pytest.raises(KafkaException):
        first.commit_transaction(30)
    first.poll(1)
    assert caplog.records == []
