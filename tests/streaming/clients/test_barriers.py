"""Barriers: what is sent, and when one has passed; the topics play the service."""

import pytest

from streaming import GroupPublisher, MulticastSender, OrderedConsumer
from streaming.clients import Barrier, Delivery
from streaming.errors import KafkaUnavailable, SequencerError
from tests.kafka_helpers import Record, create_topics, produce, read_all

PARTITIONS = 3


@pytest.fixture
def topics(broker, topic_prefix):
    """The names of an input and an output topic."""
    names = f"{topic_prefix}in", f"{topic_prefix}out"
    create_topics(broker.bootstrap, {names[0]: PARTITIONS, names[1]: 1})
    return names


def kafka(broker):
    return {"bootstrap.servers": broker.bootstrap}


def delivered(number, value, *own, key=b"eve"):
    added = [("from", b"x"), ("destination", key), ("timestamp", b"%d" % number)]
    counts = [("sequence", b"%d" % number), ("incarnation", b"5")]
    return Record(key, value, [*own, *added, *counts])


def test_a_barrier_is_a_copy_in_each_partition_of_the_input(broker, topics):
    with MulticastSender(kafka(broker), topics[0], "eve") as eve:
        barrier = eve.barrier()
    found = read_all(broker.bootstrap, topics[0])
    assert sorted(each.partition for each in found) == list(range(PARTITIONS))
    for each in found:
        assert (each.key, each.value, each.header("to")) == (b"eve", None, b"eve")
        assert each.header("barrier") == barrier.token


def test_a_publishers_barrier_names_its_group(broker, topics):
    with GroupPublisher(kafka(broker), topics[0], "ann") as ann:
        ann.barrier("stocks")
        with pytest.raises(SequencerError, match="needs a group"):
            ann.barrier("")
    found = read_all(broker.bootstrap, topics[0])
    assert {(each.key, each.header("group")) for each in found} == {(b"ann", b"stocks")}
    assert len(found) == PARTITIONS


def test_it_has_passed_with_its_last_copy_and_gives_what_came_before(broker, topics):
    """Copies of other barriers, and copies for other readers, count for nothing."""
    with MulticastSender(kafka(broker), topics[0], "eve") as eve:
        barrier, other = eve.barrier(), eve.barrier()
    copy, strange = ("barrier", barrier.token), ("barrier", other.token)
    stream = [b"a", copy, b"b", strange, strange, strange, copy, b"c", copy, b"d"]
    records = [
        delivered(number, None, each) if isinstance(each, tuple) else delivered(number, each)
        for number, each in enumerate(stream)
    ]
    not_hers = [delivered(number, None, copy, key=b"bob") for number in range(3)]
    produce(broker.bootstrap, topics[1], [*not_hers, *records])
    with OrderedConsumer(kafka(broker), [topics[1]], discipline="multicast", group="g") as consumer:
        before = [each.value for each in barrier.before(consumer, limit_s=60)]
        assert before == [None] * 3 + [b"a", b"b", None, None, None, b"c"]
        assert barrier.passed
        assert not other.passed
        after = consumer.poll(30)
        assert after is not None
        assert after.value == b"d"
        assert list(barrier.before(consumer, limit_s=60)) == []


def test_a_repeated_copy_is_no_further_copy():
    """Where a loop of one's own is given repeats, as by an at-least-once pipeline."""
    places = {"topic": "t", "partition": 0, "offset": 0, "timestamp": 0, "key": b"eve"}
    first, second = (
        Delivery(**places, value=None, headers=(("barrier", b"x"),), sequence=n, incarnation=5)
        for n in range(2)
    )
    barrier = Barrier(b"x", b"eve", 2)
    assert [barrier.take(each) for each in (first, first)] == [True, True]
    assert not barrier.passed
    assert barrier.take(second)
    assert barrier.take(first)
    assert barrier.passed


def test_a_barrier_that_does_not_come_is_said(broker, topics):
    with MulticastSender(kafka(broker), topics[0], "eve") as eve:
        barrier = eve.barrier()
    with (
        OrderedConsumer(kafka(broker), [topics[1]], discipline="multicast", group="g") as consumer,
        pytest.raises(KafkaUnavailable, match="has not passed within 1 s"),
    ):
        list(barrier.before(consumer, limit_s=1))
    assert not barrier.passed


def test_without_a_topic_no_barrier_is_sent(broker, topic_prefix):
    with (
        MulticastSender(kafka(broker), f"{topic_prefix}nowhere", "eve") as eve,
        pytest.raises(KafkaUnavailable, match="No barrier was sent"),
    ):
        eve.barrier()
