"""The proxies that fault tests stand between clients and brokers do what they say."""

import pytest
from confluent_kafka import Producer
from kafka.errors import KafkaError
from kafka.protocol.metadata import MetadataRequest

from streaming.wire.brokers import Brokers
from tests.kafka_helpers import Record, create_topics, produce, read_all, until
from tests.proxies import Proxies


@pytest.fixture
def proxies(broker):
    with Proxies(broker.bootstrap) as started:
        yield started


def brokers_through(proxies, **settings):
    return Brokers({"bootstrap_servers": proxies.bootstrap.split(","), **settings})


def ask(brokers):
    request = MetadataRequest(topics=[], max_version=9)
    return brokers.ask(lambda: request, lambda _: ())


def test_every_client_comes_through_the_proxy(broker, proxies, topic_prefix):
    topic = f"{topic_prefix}t"
    create_topics(broker.bootstrap, {topic: 1})
    written = proxies.watch("Produce")
    fetched = proxies.watch("Fetch")
    produce(proxies.bootstrap, topic, [Record(b"k", b"v")])
    assert [each.value for each in read_all(proxies.bootstrap, topic)] == [b"v"]
    assert written.seen
    assert fetched.seen


def test_held_requests_arrive_after_the_client_has_gone(proxies, broker, topic_prefix):
    topic = f"{topic_prefix}t"
    create_topics(broker.bootstrap, {topic: 1})
    held = proxies.hold("Produce", 1)
    answered = proxies.watch("Produce", answers=True)
    producer = Producer({"bootstrap.servers": proxies.bootstrap, "retries": 0, "log_level": 0})
    producer.produce(topic, b"late")
    producer.poll(0)
    held.wait()
    proxies.cut()
    assert not read_all(broker.bootstrap, topic)
    held.release()
    until(lambda: answered.seen, "the broker's answer")
    assert [each.value for each in read_all(broker.bootstrap, topic)] == [b"late"]
    producer.purge()


def test_an_answer_is_lost_and_the_next_request_goes_over_a_new_connection(proxies):
    lost = proxies.lose("Metadata", 1, answers=True)
    brokers = brokers_through(proxies)
    try:
        assert ask(brokers).brokers
    finally:
        brokers.close()
    assert len(lost.seen) == 1


def test_a_broker_that_is_away_comes_back(proxies):
    brokers = brokers_through(proxies)
    try:
        ask(brokers)
        with proxies.away(), pytest.raises(KafkaError):
            brokers.manager.run(brokers.manager.send, MetadataRequest(topics=[], max_version=9))
        assert ask(brokers).brokers
    finally:
        brokers.close()
