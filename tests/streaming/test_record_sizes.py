"""What a topic takes is sent to it: large records, and many small ones where it takes no large."""

import pytest

from streaming import LabelledProducer, OrderedConsumer
from streaming.clients import Retry
from tests.kafka_helpers import Record, make_topic, produce, read_all
from tests.service_helpers import called, channel_topics, write_config

LARGE = b"x" * 2_000_000
SMALL = b"x" * 2_000
REASON = ("reject-reason", b"buffer-full")
TAKES = {"max_message_bytes": 10_000_000}
TAKES_LESS = {"max_message_bytes": 100_000}
WRITES = {"message.max.bytes": 20_000_000}


@pytest.mark.parametrize(
    ("values", "takes"),
    [
        ([SMALL, LARGE], TAKES),
        ([SMALL] * 300, TAKES_LESS),
        ([SMALL] * 300, {"max_message_bytes": 10_000}),
    ],
)
def test_rejects_are_sent_back_whatever_their_size(broker, topic_prefix, tmp_path, values, takes):
    topics = channel_topics(topic_prefix)
    make_topic(broker.bootstrap, topics["input"], **takes)
    make_topic(broker.bootstrap, topics["rejects"], **TAKES)
    rejects = [
        Record(b"k", value, [REASON, ("reject-topic", topics["input"].encode()), ("reject-partition", b"0"), ("reject-offset", b"%d" % number)])
        for number, value in enumerate(values)
    ]  # fmt: skip
    produce(broker.bootstrap, topics["rejects"], rejects, **WRITES)
    config = write_config(tmp_path, broker.bootstrap, {"p": topics}, create_topics=True)
    code, _, said = called("resend", str(config), "--reason", "buffer-full")
    assert code == 0, said
    assert [r.value for r in read_all(broker.bootstrap, topics["input"])] == values


def test_one_that_the_input_refuses_is_named(broker, topic_prefix, tmp_path):
    topics = channel_topics(topic_prefix)
    make_topic(broker.bootstrap, topics["input"], **TAKES_LESS)
    make_topic(broker.bootstrap, topics["rejects"], **TAKES)
    headers = [REASON, ("reject-topic", topics["input"].encode()), ("reject-partition", b"0"), ("reject-offset", b"7")]  # fmt: skip
    produce(broker.bootstrap, topics["rejects"], [Record(b"k", LARGE, headers)], **WRITES)
    config = write_config(tmp_path, broker.bootstrap, {"p": topics}, create_topics=True)
    code, _, said = called("resend", str(config), "--reason", "buffer-full")
    assert code == 1
    assert f"the reject of {topics['input']}/0@7" in said


def test_a_producer_sends_many_small_ones(broker, topic_prefix):
    topic = f"{topic_prefix}in"
    make_topic(broker.bootstrap, topic, **TAKES_LESS)
    with LabelledProducer({"bootstrap.servers": broker.bootstrap}, topic) as producer:
        for _ in range(500):
            producer.send("k", SMALL)
    assert len(read_all(broker.bootstrap, topic)) == 500


def test_a_reject_of_a_parallel_reader_keeps_its_large_value(broker, topic_prefix):
    topic = f"{topic_prefix}out"
    for name in (topic, f"{topic}.failed"):
        make_topic(broker.bootstrap, name, **TAKES)
    headers = [("sequence", b"0"), ("incarnation", b"1")]
    produce(broker.bootstrap, topic, [Record(b"k", LARGE, headers)], **WRITES)
    with OrderedConsumer({"bootstrap.servers": broker.bootstrap}, [topic], group=topic) as reader:
        parallel = reader.parallel(1, rejects=f"{topic}.failed", retry=Retry(tries=1))

        def reject(delivery):
            parallel.reject(delivery, "no-account")
            parallel.stop()

        parallel.run(reject)
    (found,) = read_all(broker.bootstrap, f"{topic}.failed")
    assert (found.value, found.header("reject-detail")) == (LARGE, None)


def test_send_sends_what_the_topic_takes(broker, topic_prefix):
    topic = f"{topic_prefix}in"
    make_topic(broker.bootstrap, topic, **TAKES_LESS)
    text = "x" * 110_000
    code, _, said = called("send", topic, "a", text, "b", "--bootstrap", broker.bootstrap)
    assert (code, "Kafka did not take 1 of 3 messages" in said) == (1, True)
    assert [r.value for r in read_all(broker.bootstrap, topic)] == [b"a", b"b"]
