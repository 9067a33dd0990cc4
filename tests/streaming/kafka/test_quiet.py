"""What librdkafka says of a fenced producer, which the caller reports itself, is not shown."""

import logging

import pytest
from confluent_kafka import KafkaException, Producer

from streaming.kafka import connection
from tests.kafka_helpers import create_topics


def test_a_fenced_producers_own_lines_are_not_shown(broker, topic_prefix, caplog, monkeypatch):
    """The error that it raises says it; librdkafka's line comes as critical."""
    create_topics(broker.bootstrap, {f"{topic_prefix}t": 1})
    settings = {"bootstrap.servers": broker.bootstrap, "transactional.id": f"{topic_prefix}id"}
    first, second = (Producer(settings, logger=connection.quiet()) for _ in range(2))
    for each in (first, second):
        each.init_transactions(30)
    monkeypatch.setattr(logging.getLogger("streaming"), "propagate", True)
    first.begin_transaction()
    first.produce(f"{topic_prefix}t", b"v")
    with pytest.raises(KafkaException):
        first.commit_transaction(30)
    first.poll(1)
    assert caplog.records == []
