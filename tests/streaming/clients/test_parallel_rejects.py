"""What a parallel reader gives up: written to a topic of rejects as the service writes its own."""

import random
import threading

import pytest
from confluent_kafka import KafkaError, KafkaException

from streaming import OrderedConsumer
from streaming.clients import Retry
from streaming.errors import KafkaUnavailable, SequencerError
from streaming.kafka.reading import _record
from streaming.resending.choice import Reject
from tests.kafka_helpers import (
    Record,
    create_topics,
    make_topic,
    produce,
    read_all,
    read_by_librdkafka,
)
from tests.streaming.clients.parallel_readers import Reader, committed, out, until


@pytest.fixture
def topic(broker, topic_prefix):
    name = f"{topic_prefix}out"
    create_topics(broker.bootstrap, {name: 1})
    return name


def test_a_store_that_is_away_is_no_failure_of_the_handler(broker, topic, topic_prefix):
    """`resume` fails more often than the handler may: what the store has is not rejected."""
    rejects, done, failures = f"{topic_prefix}failed", [], [ConnectionError("away")] * 3
    create_topics(broker.bootstrap, {rejects: 1})
    produce(broker.bootstrap, topic, [out(b"a", 0), out(b"a", 1)])

    def resume(_):
        if failures:
            raise failures.pop()
        return (1, 0)

    def handle(delivery):
        done.append(delivery.sequence)
        if len(done) == 1:
            raise ValueError("once")

    more = {"retry": Retry(first_s=0.01, tries=2), "rejects": rejects, "resume": resume}
    with Reader(broker, topic, handle, **more):
        until(lambda: len(done) == 2, "the delivery that the store does not have")
    assert done == [1, 1]
    assert read_all(broker.bootstrap, rejects) == []


def test_what_was_given_up_is_rejected_and_its_channel_goes_on(broker, topic, topic_prefix):
    """By the handler, or after so many tries; rejects are as those of the service."""
    rejects = f"{topic_prefix}failed"
    create_topics(broker.bootstrap, {rejects: 1})
    own = [("own", b"\x00\xff"), ("own", None)]
    records = [
        out(b"a", 0, more=own, value=b"\xfe"),
        out(b"a", 1),
        Record(b"b", None, [("sequence", b"0"), ("incarnation", b"1")], 0, 1_700_000_000_000),
        out(b"b", 1),
    ]
    produce(broker.bootstrap, topic, records)
    tried, done = [], []

    def handle(delivery):
        tried.append(delivery.place)
        if delivery.place == f"{topic}/0@0":
            raise ValueError("no such account")
        if delivery.place == f"{topic}/0@2":
            return reader.parallel.reject(delivery, "no-value", "it is empty")
        return done.append(delivery)

    retry = Retry(first_s=0.01, factor=1, longest_s=0.01, tries=3)
    with Reader(broker, topic, handle, rejects=rejects, retry=retry) as reader:
        until(lambda: len(done) == 2, "the others")
        with pytest.raises(SequencerError, match="not being handled here"):
            reader.parallel.reject(done[0])
    assert tried.count(f"{topic}/0@0") == 3
    assert committed(broker, topic, topic) == [4]

    found = {record.key: record for record in read_all(broker.bootstrap, rejects)}
    sources = {record.key: record for record in read_all(broker.bootstrap, topic)[::2]}
    for key, source in sources.items():
        reject = found.pop(key)
        reason, detail = {
            b"a": (b"handler-failed", b"ValueError: no such account"),
            b"b": (b"no-value", b"it is empty"),
        }[key]
        added = [
            ("reject-reason", reason),
            ("reject-topic", topic.encode()),
            ("reject-partition", b"0"),
            ("reject-offset", b"%d" % source.offset),
            ("reject-detail", detail),
        ]
        assert reject.headers == source.headers + added
        assert (reject.value, reject.timestamp) == (source.value, source.timestamp)
    assert not found
    for message in _messages(broker, rejects, 2):
        reject = Reject.of(_record(message), "")
        assert reject.origin == (topic, 0, 0 if message.key() == b"a" else 2)
        assert reject.headers == tuple(sources[message.key()].headers)


def test_a_reject_that_its_topic_refuses_is_written_without_its_value(broker, topic, topic_prefix):
    rejects = f"{topic_prefix}failed"
    make_topic(broker.bootstrap, rejects, max_message_bytes=1_000)
    produce(broker.bootstrap, topic, [out(b"a", 0, value=bytes(range(256)) * 10), out(b"a", 1)])
    done = threading.Event()

    def handle(delivery):
        if delivery.sequence == 0:
            reader.parallel.reject(delivery, "large")
        else:
            done.set()

    with Reader(broker, topic, handle, rejects=rejects) as reader:
        assert done.wait(120)
    (reject,) = read_by_librdkafka(broker.bootstrap, rejects, 1)
    assert reject.value is None
    assert reject.header("reject-reason") == b"large"
    assert reject.header("reject-detail").startswith(b"without its value (2560 bytes)")


def test_rejects_at_one_time_do_not_cost_each_other_their_values(broker, topic, topic_prefix):
    """Each fits its topic; together, in one record batch, they would not."""
    rejects, count = f"{topic_prefix}failed", 8
    make_topic(broker.bootstrap, rejects, max_message_bytes=1_000)
    rows = [out(b"%d" % n, 0, value=random.Random(n).randbytes(500)) for n in range(count)]
    produce(broker.bootstrap, topic, rows)
    together = threading.Barrier(count)

    def handle(delivery):
        together.wait(120)
        reader.parallel.reject(delivery, "no-account")

    with Reader(broker, topic, handle, workers=count, rejects=rejects) as reader:
        until(lambda: committed(broker, topic, topic) == [count], "all")
    found = read_by_librdkafka(broker.bootstrap, rejects, count)
    assert {(each.key, each.value) for each in found} == {(row.key, row.value) for row in rows}


def test_a_reject_that_kafka_does_not_take_leaves_its_delivery_unfinished(broker, topic):
    produce(broker.bootstrap, topic, [out(b"a", 0), out(b"a", 1)])
    errors = []

    def handle(delivery):
        try:
            reader.parallel.reject(delivery)
        except KafkaUnavailable as error:
            errors.append(str(error))
            raise

    retry = Retry(first_s=0.01, tries=2)
    with Reader(broker, topic, handle, rejects="no such topic", retry=retry) as reader:
        until(lambda: len(errors) >= 2, "two tries")
        (parked,) = until(lambda: reader.parallel.parked, "it")
        assert parked.delivery.sequence == 0
    assert "no such topic did not take a reject" in errors[0]
    assert committed(broker, topic, topic) == [0]


def _messages(broker, topic, count):
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = consumer.consume(count, 60)
    consumer.close()
    assert len(found) == count
    return found


class Broken:
    """A producer that has failed for good, as an idempotent one may; `fatal()` is then False."""

    def produce(self, *_, **__):
        raise KafkaException(KafkaError(KafkaError._FATAL, "out of order"))


def test_a_producer_that_has_failed_for_good_is_replaced(broker, topic, topic_prefix):
    rejects = f"{topic_prefix}failed"
    create_topics(broker.bootstrap, {rejects: 1})
    produce(broker.bootstrap, topic, [out(b"a", 0), out(b"a", 1)])
    errors, done = [], threading.Event()

    def handle(delivery):
        if delivery.sequence == 1:
            return done.set()
        try:
            reader.parallel.reject(delivery)
        except KafkaUnavailable as error:
            errors.append(error)
            raise

    consumer = OrderedConsumer.parallel

    def broken(self, *arguments, **settings):
        parallel = consumer(self, *arguments, **settings)
        parallel._workers._rejects._producer = Broken()
        return parallel

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OrderedConsumer, "parallel", broken)
        reader = Reader(broker, topic, handle, rejects=rejects, retry=Retry(first_s=0.01))
    with reader:
        assert done.wait(120)
    assert "out of order" in str(errors.pop())
    assert not errors
    assert len(read_all(broker.bootstrap, rejects)) == 1
