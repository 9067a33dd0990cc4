"""Readers of one group: partitions go and come back, and nobody gets a delivery twice."""

import time
from types import SimpleNamespace

import pytest

from streaming import OrderedConsumer
from streaming.clients.membership import Membership
from streaming.errors import KafkaUnavailable
from tests.kafka_helpers import Record, create_topics, produce

KEYS = [b"k%d" % n for n in range(8)]
SECONDS_MAX = 120


def out(key, sequence, partition):
    headers = [("sequence", b"%d" % sequence), ("incarnation", b"1")]
    return Record(key, b"%s %d" % (key, sequence), headers, partition=partition)


def write(broker, topic, sequences):
    rows = [out(key, n, at % 2) for n in sequences for at, key in enumerate(KEYS)]
    produce(broker.bootstrap, topic, rows)


def read(until, *readers):
    """Let all read in turn until a condition holds."""
    deadline = time.monotonic() + SECONDS_MAX
    while not until():
        assert time.monotonic() < deadline, [len(each.got) for each in readers]
        for each in readers:
            each.step()


class Reader:
    def __init__(self, broker, topic, **settings):
        kafka = {"bootstrap.servers": broker.bootstrap, "session.timeout.ms": 10_000, **settings}
        self.consumer = OrderedConsumer(kafka, [topic], group=topic)
        self.got = []

    def step(self):
        delivery = self.consumer.poll(0.1)
        if delivery is not None:
            self.got.append((delivery.key, delivery.sequence))

    @property
    def assigned(self):
        return len(self.consumer._consumer.assignment())


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_another_reader_comes_and_goes(broker, topic_prefix, strategy):
    topic = f"{topic_prefix}out"
    settings = {"partition.assignment.strategy": strategy} if strategy == "range" else {}
    create_topics(broker.bootstrap, {topic: 2})
    write(broker, topic, range(5))
    first = Reader(broker, topic, **settings)
    read(lambda: len(first.got) == 5 * len(KEYS), first)
    first.consumer.commit()
    write(broker, topic, range(5, 7))
    read(lambda: len(first.got) == 7 * len(KEYS), first)  # and is not committed

    second = Reader(broker, topic, **settings)
    read(lambda: (first.assigned, second.assigned) == (1, 1), first, second)
    read(lambda: len(second.got) == 2 * len(KEYS) // 2, first, second)
    assert {n for _, n in second.got} == {5, 6}, "what was not committed"
    write(broker, topic, range(7, 8))
    read(lambda: len(second.got) == 3 * len(KEYS) // 2, first, second)
    second.consumer.commit()
    second.consumer.close()
    write(broker, topic, range(8, 9))
    mine = {key for key, _ in second.got}
    kept = [key for key in KEYS if key not in mine]
    wanted = {(key, n) for key in KEYS for n in range(9)} - {(key, 7) for key in mine}
    read(lambda: set(first.got) >= wanted, first)
    assert len(first.got) == len(set(first.got)), "nothing twice"
    assert set(first.got) == wanted
    assert len(kept) == len(mine) == len(KEYS) // 2
    assert first.consumer.holes == second.consumer.holes == []

    write(broker, topic, range(10, 11))
    read(lambda: len(first.consumer.holes) == len(KEYS), first)
    first.consumer.close()


@pytest.mark.parametrize("strategy", ["cooperative-sticky", "range"])
def test_who_has_not_polled_for_long_does_not_read_beside_the_others(
    broker, topic_prefix, strategy
):
    """Another one comes meanwhile: its assignment waits for a poll, and then nobody is there."""
    topic = f"{topic_prefix}out"
    settings = {"partition.assignment.strategy": strategy, "session.timeout.ms": 6_000}
    settings["heartbeat.interval.ms"] = 300
    create_topics(broker.bootstrap, {topic: 1})
    write_one(broker, topic, range(3))
    first = Reader(broker, topic, **settings, **{"max.poll.interval.ms": 6_000})
    read(lambda: len(first.got) == 3, first)
    second = Reader(broker, topic, **settings)
    read(lambda: len(second.got) == 3, second)
    write_one(broker, topic, range(3, 6))
    read(lambda: len(second.got) == 6, second)
    second.consumer.commit()
    with pytest.raises(KafkaUnavailable, match=r"raise that property\.$"):
        read(lambda: False, first)
    write_one(broker, topic, range(6, 9))
    read(lambda: {(b"k", 8)} <= {*first.got, *second.got}, first, second)
    # The first one joins again, and may get the partition; it knows what the other one had.
    assert not {(b"k", n) for n in range(3, 6)} & {*first.got}
    assert first.consumer.holes == second.consumer.holes == []
    first.consumer.close()
    second.consumer.close()


class Members:
    """A consumer whose assignments the test says."""

    def __init__(self):
        self.member = "first"

    def memberid(self):
        return self.member

    def subscribe(self, _topics, *, on_assign, on_revoke, on_lost):
        self.assign, self.revoke, self.lose = on_assign, on_revoke, on_lost


@pytest.mark.parametrize("member", ["first", "another"])
def test_who_was_removed_between_revoking_and_assigning_doubts_all_that_it_had(member):
    """By the eager protocol, of which nothing tells that others read meanwhile."""
    consumer, doubted = Members(), []
    Membership(consumer, ["t"], doubted.append, cooperative=False)
    places = [SimpleNamespace(topic="t", partition=number) for number in range(2)]
    consumer.assign(consumer, places)
    consumer.revoke(consumer, places)
    consumer.member = member
    consumer.assign(consumer, places[:1])
    others = {("t", 1)} if member == "first" else {("t", 0), ("t", 1)}
    assert set.union(*doubted) == others


def write_one(broker, topic, sequences):
    produce(broker.bootstrap, topic, [out(b"k", n, 0) for n in sequences])


def test_two_of_one_instance_id(broker, topic_prefix):
    """Kafka ends the first one for good, which every poll says."""
    topic = f"{topic_prefix}out"
    create_topics(broker.bootstrap, {topic: 1})
    write_one(broker, topic, range(3))
    first = Reader(broker, topic, **{"group.instance.id": "one"})
    read(lambda: len(first.got) == 3, first)
    second = Reader(broker, topic, **{"group.instance.id": "one"})
    read(lambda: len(second.got) == 3, second)
    with pytest.raises(KafkaUnavailable, match="no two may have the same"):
        read(lambda: False, first)
    with pytest.raises(KafkaUnavailable, match="This reader reads nothing more"):
        first.step()
    first.consumer.close()
    second.consumer.close()
