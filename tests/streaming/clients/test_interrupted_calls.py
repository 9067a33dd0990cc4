"""Ctrl-C at any moment at which Python handles signals: as functions begin, and C's ones return."""

import itertools
import sys
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming import GroupPublisher, LabelledProducer, OrderedConsumer
from streaming.clients import reading
from tests.kafka_helpers import create_topics, read_all
from tests.streaming.clients.messages import Message

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
SENDS, RECORDS = 200, 8


class Interrupt(BaseException):
    """What the handler of a signal raises."""


@contextmanager
def interrupt_at(moment):
    """Raise Interrupt at one of the moments of what is called within, counted from 0."""
    left = iter(range(moment))

    def handle(_frame, event, _argument):
        if event in ("call", "c_return") and next(left, None) is None:
            sys.setprofile(None)
            raise Interrupt

    sys.setprofile(handle)
    try:
        yield
    finally:
        sys.setprofile(None)


class Records:
    """A consumer that has deliveries of one channel; every second one repeats the one before it."""

    def __init__(self):
        self.at = self.committed = 0

    def subscribe(self, _topics, **_callbacks):
        pass

    def poll(self, _timeout_s):
        if self.at == RECORDS:
            return None
        sequence = b"%d" % (self.at // 2)
        self.at += 1
        return Message(self.at - 1, headers=[("sequence", sequence), ("incarnation", b"1")])

    def assignment(self):
        return [SimpleNamespace(topic="t", partition=0, offset=-1001)]

    def position(self, _places):
        return [SimpleNamespace(topic="t", partition=0, offset=self.at)]

    def seek(self, place):
        self.at = place.offset

    def commit(self, offsets, **_more):
        (place,) = offsets
        self.committed = place.offset
        return [SimpleNamespace(error=None)]


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_reader_gives_each_delivery_once_and_commits_none_that_it_did_not_give(
    monkeypatch, before
):
    records = Records()
    monkeypatch.setattr(reading, "connected", lambda *_: records)
    for moment in itertools.count():
        records.at = records.committed = 0
        reader = OrderedConsumer(NOWHERE, ["t"], group="g")
        given = [reader.poll(0) for _ in range(before)]
        is_through = True
        try:
            with interrupt_at(moment):
                given.extend(map(reader.poll, (0,)))
        except Interrupt:
            is_through = False
        reader.commit()
        assert records.committed <= 2 * len(given), moment
        while (delivery := reader.poll(0)) is not None:
            given.append(delivery)
        assert [each.sequence for each in given] == [*range(RECORDS // 2)], moment
        if is_through:
            break
    assert moment > RECORDS


@pytest.mark.parametrize("keep", [2, 10 * SENDS])
def test_each_label_is_of_one_message_and_what_is_sent_is_kept(broker, topic_prefix, keep):
    topic = f"{topic_prefix}in"
    create_topics(broker.bootstrap, {topic: 1})
    kafka = {"bootstrap.servers": broker.bootstrap}
    with LabelledProducer(kafka, topic, keep=keep) as producer:
        for moment in range(SENDS):
            with suppress(Interrupt), interrupt_at(moment):
                producer.send("K", b"v")
            count, kept = producer._following.get(b"K", 0), producer._kept
            assert {*range(max(0, count - keep), count)} <= {n for _, n in kept._messages}, moment
            assert len(kept) <= keep + 1, moment
            assert kept.size == sum(each.size for each in kept._messages.values()), moment
    labels = [int(each.header("label")) for each in read_all(broker.bootstrap, topic)]
    assert labels == [*range(count)]
    assert len(labels) > SENDS // 2


def test_what_the_users_own_callback_raises_is_of_a_message_that_was_not_sent(monkeypatch):
    """As an `error_cb` that raises: whoever sends a message again that went out doubles it."""
    producer = LabelledProducer(NOWHERE, "t", keep=SENDS)

    def raising(_timeout_s):
        raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    try:
        with monkeypatch.context() as patched:
            patched.setattr(producer._producer, "poll", raising)
            with pytest.raises(KafkaException):
                producer.send("K", b"v")
        assert producer.send("K", b"v") == 0
        assert len(producer._kept) == 1
    finally:
        producer._listener.close()
        producer._producer.purge()


def test_an_interrupt_that_produce_takes_for_a_wrong_name_is_one(monkeypatch):
    error = TypeError("expected header key to be unicode string")

    def interrupted(*_, **_more):
        raise error

    with GroupPublisher(NOWHERE, "t", "ann") as publisher:
        monkeypatch.setattr(publisher._producer, "produce", interrupted)
        with pytest.raises(KeyboardInterrupt):
            publisher.send("G", b"v")
        error = TypeError("another")
        with pytest.raises(TypeError, match="another"):
            publisher.send("G", b"v")
