"""Clients against a real broker."""

import pytest

from sequencer import CyclicLabels, LinearLabels
from streaming import LabelledProducer, OrderedConsumer
from streaming.clients import Hole
from streaming.errors import ConfigError, SequencerError
from tests.kafka_helpers import Record, create_topics, produce, read_all


def test_the_producer_labels_each_channel(broker, topic_prefix):
    topic = f"{topic_prefix}in"
    create_topics(broker.bootstrap, {topic: 2})
    with LabelledProducer(
        {"bootstrap.servers": broker.bootstrap}, topic, labels=CyclicLabels(4), epoch=7
    ) as producer:
        labels = [producer.send("a", b"%d" % n, [("own", b"x")]) for n in range(5)]
        assert labels == [0, 1, 2, 3, 0]
        assert producer.send(b"b", None, fin=True) == 0
    found = read_all(broker.bootstrap, topic)
    a = [r for r in found if r.key == b"a"]
    assert [r.header("label") for r in a] == [b"0", b"1", b"2", b"3", b"0"]
    assert a[0].headers == [("own", b"x"), ("label", b"0"), ("epoch", b"7")]
    assert [r.headers for r in found if r.key == b"b"] == [
        [("label", b"0"), ("epoch", b"7"), ("fin", b"")]
    ]


CONFIGURED = """
[kafka]
bootstrap_servers = "{}"
[pipelines.trades]
discipline = "channel"
input = ["{}"]
label = "header('number')"
labels = {{ kind = "linear", start = 10, step = 5 }}
[pipelines.open]
discipline = "channel"
labels = {{ kind = "linear", start = "first-seen", step = 5 }}
[pipelines.many]
discipline = "channel"
input = ["a.in", "b.in"]
label = "cast(key as string)"
[pipelines.market]
discipline = "group"
"""


def test_a_producer_goes_by_the_configuration(broker, topic_prefix, tmp_path):
    topic = f"{topic_prefix}in"
    create_topics(broker.bootstrap, {topic: 1})
    file = tmp_path / "orders.toml"
    file.write_text(CONFIGURED.format(broker.bootstrap, topic))
    with LabelledProducer.of(file, "trades", epoch=0) as producer:
        assert [producer.send("a", b"x"), producer.send("a", b"y")] == [10, 15]
    assert [r.headers for r in read_all(broker.bootstrap, topic)] == [
        [("number", b"10")],
        [("number", b"15")],
    ]
    LabelledProducer.of(file, "trades", labels=LinearLabels(10, 5))
    LabelledProducer.of(file, "open", labels=LinearLabels(100, 5))


@pytest.mark.parametrize(
    ("pipeline", "more", "said"),
    [
        ("trades", {"labels": LinearLabels(10, 2)}, "its label 1 is 12, the pipeline's 15"),
        ("open", {"labels": LinearLabels(0, 3)}, "its label 1 is 3, the pipeline's 5"),
        ("open", {"labels": CyclicLabels(5000, 0, 5)}, "cycle has 1,000 labels, the pipeline's never"),
        ("open", {"labels": "linear"}, "labels is 'linear', which is no sequence"),
        ("trades", {"topic": "other"}, "reads t, not other"),
        ("many", {}, "writes the channel as key and the label into a header"),
        ("market", {}, "discipline 'group'"),
        ("tradse", {}, "There is no pipeline 'tradse'"),
    ],
)  # fmt: skip
def test_a_producer_that_does_not_fit_says_why(tmp_path, pipeline, more, said):
    file = tmp_path / "orders.toml"
    file.write_text(CONFIGURED.format("127.0.0.1:1", "t"))
    with pytest.raises(ConfigError) as error:
        LabelledProducer.of(file, pipeline, **more)
    assert said in error.value.message


def test_a_message_that_cannot_be_sent_uses_no_label(broker, topic_prefix):
    topic = f"{topic_prefix}in"
    create_topics(broker.bootstrap, {topic: 1})
    with LabelledProducer({"bootstrap.servers": broker.bootstrap}, topic) as producer:
        assert producer.send("a", b"fits") == 0
        with pytest.raises(SequencerError, match="label 1 was not used"):
            producer.send("a", bytes(2_000_000))
        assert producer.send("a", b"fits, too") == 1


def test_a_restarted_producer_has_a_higher_epoch():
    settings = {"bootstrap.servers": "127.0.0.1:1"}
    assert LabelledProducer(settings, "t").epoch > 1_600_000_000_000


def test_the_consumer_drops_repeats_and_reports_holes(broker, topic_prefix):
    topic = f"{topic_prefix}out"
    create_topics(broker.bootstrap, {topic: 1})

    def out(key, incarnation, sequence):
        return Record(
            key,
            b"%d-%d" % (incarnation, sequence),
            [("label", b"1"), ("sequence", b"%d" % sequence), ("incarnation", b"%d" % incarnation)],
        )

    produce(
        broker.bootstrap,
        topic,
        [
            out(b"a", 5, 0),
            out(b"a", 5, 1),
            out(b"a", 5, 0),
            out(b"a", 5, 1),
            out(b"b", 5, 3),
            out(b"a", 5, 4),
            out(b"a", 9, 0),
            out(b"a", 5, 5),
            out(b"b", 6, 2),
        ],
    )
    told = []
    with OrderedConsumer(
        {"bootstrap.servers": broker.bootstrap}, [topic], group=topic, on_hole=told.append
    ) as consumer:
        found = []
        while len(found) < 6:
            delivery = consumer.poll(30)
            assert delivery is not None, found
            found.append(delivery)
        assert consumer.poll(1) is None
        consumer.commit()
    assert [d.value for d in found] == [b"5-0", b"5-1", b"5-3", b"5-4", b"9-0", b"6-2"]
    assert found[0].headers == (("label", b"1"),)
    assert told == consumer.holes == [Hole(b"a", 5, 2, 4), Hole(b"b", 6, 0, 2)]


def test_the_consumer_goes_by_channels_that_are_not_keys(broker, topic_prefix):
    topic = f"{topic_prefix}out"
    create_topics(broker.bootstrap, {topic: 1})
    sent = [
        Record(
            b"K",
            channel + b"%d" % sequence,
            [("c", channel), ("sequence", b"%d" % sequence), ("incarnation", b"5")],
        )
        for channel, sequence in [(b"a", 0), (b"b", 0), (b"a", 1), (b"a", 1), (b"b", 2)]
    ]
    produce(broker.bootstrap, topic, sent)
    with OrderedConsumer(
        {"bootstrap.servers": broker.bootstrap},
        [topic],
        group=topic,
        channel=lambda delivery: dict(delivery.headers)["c"],
    ) as consumer:
        found = [consumer.poll(30.0).value for _ in range(4)]
    assert found == [b"a0", b"b0", b"a1", b"b2"]
    assert consumer.holes == [Hole(b"b", 5, 1, 2)]


class Interrupted:
    """A producer in which a signal comes, as with Ctrl-C, in one of its calls."""

    def __init__(self, producer, where):
        self.producer, self.where = producer, where

    def __getattr__(self, name):
        return getattr(self.producer, name)

    def produce(self, *given, **more):
        self.come("produce")
        self.producer.produce(*given, **more)

    def poll(self, timeout_s):
        self.come("poll")
        return self.producer.poll(timeout_s)

    def come(self, where):
        if self.where == where:
            self.where = ""
            raise KeyboardInterrupt


@pytest.mark.parametrize("keep", [0, 10])
@pytest.mark.parametrize("where", ["produce", "poll"])
def test_an_interrupt_leaves_no_label_out_and_none_twice(broker, topic_prefix, where, keep):
    """Behind a message that librdkafka has: `test_interrupted_calls.py`."""
    topic = f"{topic_prefix}in"
    create_topics(broker.bootstrap, {topic: 1})
    with LabelledProducer({"bootstrap.servers": broker.bootstrap}, topic, keep=keep) as producer:
        assert producer.send("a", b"x") == 0
        producer._producer = Interrupted(producer._producer, where)
        with pytest.raises(KeyboardInterrupt):
            producer.send("a", b"y")
        assert producer.send("a", b"last", fin=True) == 1
    found = read_all(broker.bootstrap, topic)
    assert [r.header("label") for r in found] == [b"0", b"1"]
