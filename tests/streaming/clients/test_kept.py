"""A producer that is asked for what is missing, against a real broker; the test asks."""

import json
from types import SimpleNamespace

import pytest

from sequencer import CyclicLabels
from streaming import LabelledProducer
from streaming.errors import ConfigError, KafkaUnavailable, SequencerError
from tests.kafka_helpers import Record, create_topics, make_topic, produce, read_all, until

ENDLESS = Record(b"a", b'{"channel": "a", "epoch": 1e999, "from": 1, "to": 3}')


class Way:
    """The topics of a pipeline; the test is the service."""

    def __init__(self, bootstrap, prefix, *, made=False):
        self.bootstrap, self.topic = bootstrap, f"{prefix}in"
        self.wanted, self.commands = f"{prefix}wanted", f"{prefix}commands"
        if not made:
            create_topics(bootstrap, {self.topic: 1, self.wanted: 2, self.commands: 1})

    def producer(self, *, linger_ms=5, **how):
        kafka = {"bootstrap.servers": self.bootstrap, "linger.ms": linger_ms}
        producer = LabelledProducer(kafka, self.topic, **how)
        if how.get("keep"):
            until(lambda: producer._listener._partitions == 2)
        return producer

    def ask(self, first, stop, *, channel="a", epoch=7, tries=1):
        said = {"channel": channel, "epoch": epoch, "from": first, "to": stop, "try": tries}
        produce(self.bootstrap, self.wanted, [Record(b"a", json.dumps(said).encode())])

    def sent(self):
        return read_all(self.bootstrap, self.topic)

    def said(self):
        return [json.loads(each.value) for each in read_all(self.bootstrap, self.commands)]


@pytest.fixture
def way(broker, topic_prefix):
    return Way(broker.bootstrap, topic_prefix)


def test_what_is_kept_is_sent_again_as_it_was(way):
    with way.producer(epoch=7, keep=3) as producer:
        for n in range(6):
            producer.send("a", b"%d" % n, [("own", b"\xff")], timestamp=1000 + n)
        producer.send(b"\xfe", None, fin=True)
        producer.flush()
        before = way.sent()
        way.ask(1, 5)
        way.ask(0, 1, channel={"base64": "/g=="})
        until(lambda: producer.resent == 3)
        producer.flush()
        again = way.sent()[len(before) :]
        told = [(r.key, r.value, r.headers, r.timestamp) for r in again]
        first = {(r.key, r.header("label")): r for r in before}
        same = [first[b"a", b"3"], first[b"a", b"4"], first[b"\xfe", b"0"]]
        assert sorted(told[:2]) == [(r.key, r.value, r.headers, r.timestamp) for r in same[:2]]
        assert told[2][:3] == (b"\xfe", None, same[2].headers)
        assert told[2][3] == same[2].timestamp, "also where Kafka would have set it"
        assert way.said() == [], "1 and 2 were sent, and are no longer kept: they may still come"


def test_one_that_cannot_be_sent_again_holds_no_other_back(way, monkeypatch):
    """The next request finds all of them."""
    with way.producer(epoch=7, keep=10) as producer:
        for n in range(4):
            producer.send("a", b"%d" % n)
        producer.flush()
        usual, failures = producer._produce, [SequencerError("The queue is full.")]

        def fail_once(*given, **more):
            if failures:
                raise failures.pop()
            usual(*given, **more)

        monkeypatch.setattr(producer, "_produce", fail_once)
        with pytest.raises(SequencerError):
            producer._answer(b"a", 7, 0, 4)
        producer._answer(b"a", 7, 0, 4)
        assert producer.resent == 4


def test_a_sender_that_rests_answers(way):
    """Nobody calls it: what Kafka answered, also to copies, is taken when something is asked for."""
    with way.producer(epoch=7, keep=10) as producer:
        for n in range(3):
            producer.send("a", b"%d" % n)
        for count in (3, 4, 5):
            until(lambda count=count: len(way.sent()) == count)
            way.ask(0, 1)
        until(lambda: len(way.sent()) == 6)
        assert producer.resent == 3


def test_what_was_skipped_is_said_not_to_come(way):
    with way.producer(epoch=7, keep=100) as producer:
        assert producer.send("a", b"x", label=20) == 20
        assert producer.send("a", b"x") == 21
        assert producer.send("a", b"x", label=25) == 25
        with pytest.raises(SequencerError, match="25 is not a label that can be next"):
            producer.send("a", b"x", label=25)
        producer.flush()
        way.ask(5, 25)
        until(lambda: producer.not_coming == 3)
        producer.flush()
        fields = {"channel": "a", "epoch": 7, "from": 22, "to": 25, "not_coming": True}
        assert way.said() == [fields], "what is below the first label somebody else may have sent"
        assert producer.resent == 2


def test_what_is_nobodys_is_not_answered(way):
    with way.producer(epoch=7, keep=100, labels=CyclicLabels(16)) as producer:
        producer.send("a", b"x")
        producer.send("a", b"x", label=3)
        producer.flush()
        for asked in ({"epoch": 6}, {"epoch": 8}, {"channel": "b"}, {"channel": 5}):
            way.ask(1, 3, **asked)
        produce(way.bootstrap, way.wanted, [Record(b"a", b"{"), Record(None, None), ENDLESS])
        way.ask(5, 9)
        way.ask("x", None)
        way.ask(1, 3)
        until(lambda: producer.not_coming == 2)
        producer.flush()
        assert [(each["from"], each["to"]) for each in way.said()] == [(1, 3)]
        assert (producer.resent, len(way.sent())) == (0, 2)


def test_without_keep_nobody_listens_and_labels_may_be_given(way):
    with way.producer(epoch=7) as producer:
        assert producer.send("a", b"x", label=3) == 3
        assert producer.send("a", b"x") == 4
        assert producer._listener is None


def test_a_topic_that_comes_later_is_read_whole(broker, topic_prefix):
    settings = {"bootstrap.servers": broker.bootstrap}
    create_topics(broker.bootstrap, {f"{topic_prefix}in": 1})
    with LabelledProducer(settings, f"{topic_prefix}in", epoch=7, keep=5) as producer:
        producer.send("a", b"x")
        producer.flush()
        until(lambda: producer._listener._partitions == 0)
        create_topics(broker.bootstrap, {f"{topic_prefix}wanted": 1})
        said = {"channel": "a", "epoch": 7, "from": 0, "to": 1, "try": 1}
        produce(
            broker.bootstrap, f"{topic_prefix}wanted", [Record(b"a", json.dumps(said).encode())]
        )
        until(lambda: producer.resent == 1)


def test_what_was_refused_with_others_is_sent_again_without_them(broker, topic_prefix):
    """Kafka refuses a record batch as a whole: one message's timestamp, and all labels in it."""
    make_topic(broker.bootstrap, f"{topic_prefix}in", message_timestamp_before_max_ms=3_600_000)
    create_topics(broker.bootstrap, {f"{topic_prefix}wanted": 2, f"{topic_prefix}commands": 1})
    way = Way(broker.bootstrap, topic_prefix, made=True)
    with way.producer(epoch=7, keep=100, linger_ms=2000) as producer:
        for n in range(10):
            producer.send("ab"[n % 2], b"%d" % n, timestamp=1000 if n == 4 else None)
        with pytest.raises(KafkaUnavailable, match="10 messages: Broker: Invalid timestamp"):
            producer.flush()
        assert way.sent() == []
        way.ask(0, 5)
        way.ask(0, 5, channel="b")
        until(lambda: producer.not_coming and producer.resent == 10)
        producer.flush()
        assert {each.value for each in way.sent()} == {b"%d" % n for n in range(10) if n != 4}
        fields = {"channel": "a", "epoch": 7, "from": 2, "to": 3, "not_coming": True}
        assert way.said() == [fields]


WALKED = SimpleNamespace(initial=0, next=lambda label: label + 1)


@pytest.mark.parametrize("how", [{"keep": -1}, {"keep": 10**7}, {"keep": 1, "labels": WALKED}])
def test_a_wrong_keep_is_a_sentence(how):
    with pytest.raises(ConfigError, match="keep is"):
        LabelledProducer({"bootstrap.servers": "127.0.0.1:1"}, "t", **how)
