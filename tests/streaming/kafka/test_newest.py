"""The newest records of real topics, with markers of transactions between them."""

import pytest
from confluent_kafka import Producer

from streaming.config import parse_config
from streaming.kafka import newest
from tests.kafka_helpers import Record, create_topics, produce


@pytest.fixture
def config(broker):
    tables = {
        "kafka": {"bootstrap_servers": broker.bootstrap},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    return parse_config(tables, {}, "c.toml")


def test_the_newest_that_fit_are_found(config, broker, topic_prefix, monkeypatch):
    monkeypatch.setattr(newest, "STEP", 10)
    topic = topic_prefix + "a"
    create_topics(broker.bootstrap, {topic: 1})
    produce(broker.bootstrap, topic, [Record(b"k%d" % (n % 7), b"%d" % n) for n in range(500)])
    found = newest.search(config, [topic], lambda each: each.key == b"k3", 5)
    wanted = [n for n in range(500) if n % 7 == 3][-5:]
    assert [int(each.value) for each in found.records] == wanted
    assert found.is_whole
    assert found.offsets < 500, "not all was read for it"
    assert newest.search(config, [topic], lambda each: each.key == b"none", 5).records == []
    late = newest.search(config, [topic], lambda _: True, 5, seconds_max=0)
    assert [int(each.value) for each in late.records] == [*range(495, 500)], "one look at least"
    before = newest.search(config, [topic], lambda each: each.key == b"k3", 5, until=found.older)
    assert [int(each.value) for each in before.records] == [n - 35 for n in wanted]


def test_the_records_around_a_place(config, broker, topic_prefix):
    topic = topic_prefix + "a"
    create_topics(broker.bootstrap, {topic: 1})
    produce(broker.bootstrap, topic, [Record(b"k", b"%d" % n) for n in range(20)])

    def offsets(*place):
        return [each.offset for each in newest.around(config, topic, *place, 2)]

    assert offsets(0, 10) == [8, 9, 10, 11, 12]
    assert offsets(0, 0) == [0, 1, 2]
    assert offsets(0, 21) == [19]
    assert offsets(0, 500) == []
    assert offsets(5, 0) == []


def test_what_was_aborted_and_markers_are_passed_over(config, broker, topic_prefix):
    topic = topic_prefix + "t"
    create_topics(broker.bootstrap, {topic: 1})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number in range(4):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number)
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    found = newest.search(config, [topic], lambda _: True, 10)
    assert [each.value for each in found.records] == [b"0", b"2"]
    assert found.is_whole
    assert [each.offset for each in newest.around(config, topic, 0, 1, 1)] == [0], "a marker"
