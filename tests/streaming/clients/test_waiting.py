"""What is read while something of the user's raises is given out later, and not committed before."""

from contextlib import suppress
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streaming import OrderedConsumer
from streaming.clients import committing, reading
from streaming.clients.connecting import reader_settings
from streaming.errors import ConfigError, KafkaUnavailable
from tests.kafka_helpers import Record, create_topics, delete_topic, produce
from tests.streaming.clients.messages import Message


def delivered(broker, topic, sequences, incarnation=1):
    create_topics(broker.bootstrap, {topic: 1})
    began = ("incarnation", b"%d" % incarnation)
    headers = [[("sequence", b"%d" % n), began] for n in sequences]
    values = [Record(b"k", b"v%d" % n, h) for n, h in zip(sequences, headers, strict=True)]
    produce(broker.bootstrap, topic, values)


def reader(broker, topic, **more):
    kafka = {"bootstrap.servers": broker.bootstrap}
    return OrderedConsumer(kafka, [topic], group=f"{topic}-g", **more)


def next_of(consumer):
    """The next delivery's sequence; a limit for all."""
    for _ in range(30):
        delivery = consumer.poll(1.0)
        if delivery is not None:
            return delivery.sequence
    raise AssertionError("nothing came")


def test_a_store_that_is_away_for_a_moment_loses_nothing(broker, topic_prefix):
    topic = f"{topic_prefix}out"
    delivered(broker, topic, [5, 6, 7])
    away = [None, ConnectionError("the database is away"), ConnectionError("still")]

    def resume(delivery):
        if delivery.sequence == 6 and len(away) > 1:
            raise away.pop()
        return (1, delivery.sequence - 1)

    with reader(broker, topic, resume=resume) as first:
        assert next_of(first) == 5
        first._lines.doubt({(topic, 0)})  # as behind a rebalance
        for _ in range(2):
            with pytest.raises(ConnectionError):
                next_of(first)
            first.commit()
    with reader(broker, topic, resume=lambda _: (1, 5)) as second:
        assert [next_of(second), next_of(second)] == [6, 7]
        assert not second.holes
    away[:] = [None, ConnectionError("once more")]
    delivered_again = f"{topic}-2"
    delivered(broker, delivered_again, [5, 6, 7])
    with reader(broker, delivered_again, resume=resume) as third:
        assert next_of(third) == 5
        third._lines.doubt({(delivered_again, 0)})
        with pytest.raises(ConnectionError):
            next_of(third)
        assert [next_of(third), next_of(third)] == [6, 7]
        assert not third.holes
        third.commit()


def test_who_hears_of_a_hole_and_raises_gets_the_delivery_all_the_same(broker, topic_prefix):
    topic, said = f"{topic_prefix}out", []
    delivered(broker, topic, [0, 3, 4])

    def on_hole(hole):
        said.append(hole)
        raise RuntimeError("alerting is down")

    with reader(broker, topic, on_hole=on_hole) as consumer:
        assert next_of(consumer) == 0
        with pytest.raises(RuntimeError):
            next_of(consumer)
        assert [next_of(consumer), next_of(consumer)] == [3, 4]
        assert len(said) == len(consumer.holes) == 1


def test_what_a_reader_rests_on_is_not_the_users_to_set():
    given = {"enable.auto.offset.store": False, "enable.auto.commit": True}
    settings = reader_settings(given, "g", from_beginning=True)
    assert settings["enable.auto.offset.store"] is True
    assert settings["enable.auto.commit"] is False


class Rebalancing:
    """A consumer whose group hands out partitions: its first commits are refused."""

    def __init__(self, *codes):
        self.codes = list(codes)
        self.committed = []

    def commit(self, *, offsets, **_):
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        self.committed += offsets
        return offsets


def test_a_commit_waits_until_partitions_are_handed_out(monkeypatch):
    busy = (KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS)
    consumer = Rebalancing(*busy)
    committing.commit(consumer, [TopicPartition("t", 0, 7)])
    assert [each.offset for each in consumer.committed] == [7]
    consumer = Rebalancing(KafkaError.UNKNOWN_MEMBER_ID)
    with pytest.raises(KafkaUnavailable, match=r"Call poll\(\) again: it joins the group again"):
        committing.commit(consumer, [TopicPartition("t", 0, 7)])
    monkeypatch.setattr(committing, "REBALANCE_SECONDS_MAX", 0)
    with pytest.raises(KafkaUnavailable, match="rebalance in progress"):
        committing.commit(Rebalancing(*busy[1:] * 99), [TopicPartition("t", 0, 7)])


def test_a_topic_that_is_made_anew_is_committed_up_to_the_same_offset(broker, topic_prefix):
    """With the old topic Kafka has forgotten what was committed."""
    topic = f"{topic_prefix}out"
    delivered(broker, topic, range(3))
    kafka = {"bootstrap.servers": broker.bootstrap, "topic.metadata.refresh.interval.ms": 1000}
    with OrderedConsumer(kafka, [topic], group=f"{topic}-g") as first:
        assert [next_of(first) for _ in range(3)] == [0, 1, 2]
        first.commit()
        delete_topic(broker.bootstrap, topic)
        delivered(broker, topic, range(3), incarnation=2)
        with suppress(KafkaUnavailable):  # it may hear that the topic was not there
            first.poll(0)
        found = next_of(first)
        while found < 2:
            found = next_of(first)
        first.commit()
    with reader(broker, topic) as second:
        assert [second.poll(1) for _ in range(8)] == [None] * 8


def test_a_protocol_without_an_assignor_of_the_readers():
    kafka = {"bootstrap.servers": "127.0.0.1:1", "group.protocol": "consumer"}
    with OrderedConsumer(kafka, ["t"], group="g") as consumer:
        assert consumer.poll(0) is None


class Interrupted:
    """A consumer in whose poll a signal comes, as with Ctrl-C: what it has taken is dropped."""

    def __init__(self, consumer):
        self.consumer = consumer
        self.is_next = False

    def __getattr__(self, name):
        return getattr(self.consumer, name)

    def poll(self, timeout_s):
        message = self.consumer.poll(timeout_s)
        if self.is_next and message is not None and not message.error():
            self.is_next = False
            raise KeyboardInterrupt
        return message


@pytest.mark.parametrize("before", [0, 2])
def test_what_an_interrupt_drops_is_not_committed_and_is_read_again(broker, topic_prefix, before):
    topic = f"{topic_prefix}out"
    delivered(broker, topic, range(6))
    with reader(broker, topic) as first:
        first._consumer = interrupted = Interrupted(first._consumer)
        assert [next_of(first) for _ in range(before)] == [*range(before)]
        interrupted.is_next = True
        with pytest.raises(KeyboardInterrupt):
            next_of(first)
        first.commit()
        assert [next_of(first), next_of(first)] == [before, before + 1]
        interrupted.is_next = True
        with pytest.raises(KeyboardInterrupt):
            next_of(first)
        first.commit()
        assert not first.holes
    with reader(broker, topic) as second:
        assert next_of(second) == before + 2


class Endless:
    """A consumer whose partition has records for others without end."""

    def __init__(self, consumer):
        self.consumer, self.taken = consumer, 0

    def __getattr__(self, name):
        return getattr(self.consumer, name)

    def poll(self, _timeout_s):
        self.taken += 1
        return Message(self.taken, b"other")


def test_poll_ends_in_time_whatever_there_is_for_others(monkeypatch):
    monkeypatch.setattr(reading, "PASSING_SECONDS_MAX", 0.1)
    with OrderedConsumer(
        {"bootstrap.servers": "127.0.0.1:1"}, ["t"], group="g", keys=["k"]
    ) as found:
        found._consumer = endless = Endless(found._consumer)
        assert found.poll(0) is None
        assert endless.taken > 1
        assert found._completeness.positions["t", 0] == endless.taken + 1


class Refusing:
    """A consumer that may not read."""

    def __init__(self, consumer):
        self.consumer = consumer

    def __getattr__(self, name):
        return getattr(self.consumer, name)

    def poll(self, _timeout_s):
        refusal = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        return SimpleNamespace(error=lambda: refusal, topic=lambda: "t", partition=lambda: 0)


def test_a_reader_that_cannot_read_says_how_to_go_on():
    """`run` has handled and committed what came before, and is over."""
    with OrderedConsumer({"bootstrap.servers": "127.0.0.1:1"}, ["t"], group="g") as found:
        found._consumer = Refusing(found._consumer)
        parallel = found.parallel(1)
        with pytest.raises(KafkaUnavailable, match="Reading failed") as failed:
            parallel.run(print)
        assert "make a new reader" in failed.value.remedy
        assert failed.value.effect == "No delivery is lost."
        with pytest.raises(ConfigError, match="has run"):
            parallel.run(print)
