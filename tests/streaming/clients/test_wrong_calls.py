"""What cannot work is a sentence, and librdkafka keeps its lines to itself."""

import asyncio

import pytest
from confluent_kafka import KafkaError
from kafka import KafkaProducer

from sequencer.labels import LinearLabels
from streaming import GroupPublisher, LabelledProducer, MulticastSender, OrderedConsumer
from streaming.clients import AsyncConsumer, AsyncSender
from streaming.errors import ConfigError, KafkaUnavailable, SequencerError
from tests.kafka_helpers import create_topics
from tests.service_helpers import called

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LabelledProducer({"boostrap.servers": "x"}, "t"), "boostrap.servers"),
        (lambda: LabelledProducer(NOBODY, "t", epoch=-1), "epoch is -1; the service rejects"),
        (lambda: LabelledProducer(NOBODY, "t", epoch=2**63), "Write a whole number from 0 to 9"),
        (lambda: LabelledProducer(NOBODY, "t", epoch=1.5), "epoch is 1.5"),
        (lambda: LabelledProducer(NOBODY, "t", labels="linear"), "labels is 'linear', which is no"),
        (lambda: LabelledProducer(NOBODY, "t", labels=LinearLabels), "labels is <class"),
        (lambda: OrderedConsumer({**NOBODY, "fetch.min": 1}, ["t"], group="g"), "fetch.min"),
        (lambda: OrderedConsumer(NOBODY, "t", group="g"), "a list of topics is meant"),
        (lambda: OrderedConsumer(NOBODY, [], group="g"), "There is no topic to read."),
        (lambda: OrderedConsumer(NOBODY, ["t"], group=""), "group is '': a reader needs"),
        (lambda: OrderedConsumer(NOBODY, ["t"], group=None), "group is None: a reader needs"),
        (lambda: OrderedConsumer(NOBODY, ["t"], group="g", keys="ann"), r"Write \['ann'\]"),
        (lambda: OrderedConsumer(NOBODY, ["t"], group="g", keys=b"ann"), r"Write \[b'ann'\]"),
        (lambda: OrderedConsumer(NOBODY, ["t"], group="g", discipline="chanel"), "no discipline"),
        (lambda: GroupPublisher(NOBODY, "t", ""), "A sender needs a name."),
        (lambda: MulticastSender(NOBODY, "t", b""), "A sender needs a name."),
    ],
)
def test_a_wrong_call_is_a_sentence(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


def test_one_handle_is_a_name(monkeypatch):
    """As one destination is, not a list of its letters."""
    sent = []
    sender = MulticastSender(NOBODY, "t", "s")
    monkeypatch.setattr(sender, "_produce", lambda _key, _value, headers, *_: sent.extend(headers))
    sender.send("ann", b"v", handles="printer")
    assert sent == [("to", b"ann"), ("handles", b"@printer")]


def test_a_kafka_that_is_away_floods_nobody(capfd):
    with OrderedConsumer(NOBODY, ["t"], group="g") as consumer:
        assert consumer.poll(0.5) is None
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("name", ["\udcff", "a\0b", b"bytes", None])
def test_a_name_that_no_header_can_have(name):
    producer = LabelledProducer(NOBODY, "t")
    with pytest.raises(SequencerError, match="is not the name of a header. The label 0 was not"):
        producer.send("k", b"v", [(name, b"x")])


def test_nothing_is_sent_after_the_end():
    with LabelledProducer(NOBODY, "t") as producer:
        pass
    with pytest.raises(SequencerError, match=r"is closed. The message was not sent. Make a new"):
        producer.send("k", b"v")


CLOSED = r"is closed. Nothing was read or committed. Make a new"


@pytest.mark.parametrize(
    "call",
    [
        lambda reader: reader.poll(0),
        lambda reader: reader.commit(),
        lambda reader: reader.complete_until(),
    ],
)
def test_nothing_is_read_after_the_end(call):
    with OrderedConsumer(NOBODY, ["t"], group="g") as reader:
        pass
    with pytest.raises(ConfigError, match=CLOSED):
        call(reader)
    reader.close()


def test_nothing_is_read_after_the_end_with_asyncio():
    async def work():
        async with AsyncConsumer(OrderedConsumer(NOBODY, ["t"], group="g")) as reader:
            waiting = asyncio.create_task(reader.poll(60))
            await asyncio.sleep(0)
            await reader.close()
        for call in (waiting, reader.poll(0), reader.commit()):
            with pytest.raises(ConfigError, match=CLOSED):
                await call
        await reader.close()

    asyncio.run(work())


def test_nothing_is_sent_after_the_end_with_asyncio():
    async def work():
        async with AsyncSender(LabelledProducer(NOBODY, "t")) as sender:
            pass
        with pytest.raises(SequencerError, match=r"is closed. Nothing was sent. Make a new one."):
            await sender.send("k", b"v")

    asyncio.run(work())


class Kept(LabelledProducer):
    """One that keeps messages, and whose requests nobody makes."""

    def __init__(self, kafka, topic):
        super().__init__(kafka, topic, keep=5)


@pytest.mark.parametrize(
    ("make", "send"),
    [
        (lambda: LabelledProducer(NOBODY, "t"), lambda sender: sender.send("k", b"v")),
        (lambda: Kept(NOBODY, "t"), lambda sender: sender.send("k", b"v")),
        (lambda: GroupPublisher(NOBODY, "t", "s"), lambda sender: sender.send("g", b"v")),
        (lambda: MulticastSender(NOBODY, "t", "s"), lambda sender: sender.send(["p"], b"v")),
    ],
)
def test_a_failure_of_earlier_messages_says_that_this_one_was_not_sent(make, send):
    sender = make()
    sender._note(KafkaError(KafkaError._MSG_TIMED_OUT), None)
    with pytest.raises(KafkaUnavailable, match="The message of this call was not sent either."):
        send(sender)
    sender._note(KafkaError(KafkaError._MSG_TIMED_OUT), None)
    with pytest.raises(KafkaUnavailable, match=r"timed out\. The(y are|ir labels)") as raised:
        sender.flush(0)
    assert "this call" not in str(raised.value)


def test_who_has_closed_sends_nothing_again():
    """And does not say so."""
    producer = Kept(NOBODY, "t")
    producer._note(KafkaError(KafkaError._MSG_TIMED_OUT), None)
    with pytest.raises(KafkaUnavailable, match="Their labels are missing") as raised:
        producer.close()
    assert "sent again" not in str(raised.value)


class NotText(str):
    __slots__ = ()

    def encode(self, *_):
        return b"\xff"


def test_a_header_whose_name_is_no_text_is_passed(broker, topic_prefix):
    """Written by another client: the reader says where it is, and goes on behind it.

    Python checks less of what is called often, so others come before.
    """
    topic = f"{topic_prefix}out"
    create_topics(broker.bootstrap, {topic: 1})
    bad = 100
    writer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for n in range(bad + 2):
        own = [(NotText("x"), b"1")] if n == bad else []
        added = [("sequence", b"%d" % n), ("incarnation", b"1")]
        writer.send(topic, key=b"k", value=b"v", headers=[*own, *added])
    writer.flush(60)
    writer.close()
    kafka = {"bootstrap.servers": broker.bootstrap}
    with OrderedConsumer(kafka, [topic], group=topic) as reader:
        assert [reader.poll(60).offset for _ in range(bad)] == [*range(bad)]
        with pytest.raises(SequencerError, match=f"{topic}/0@{bad} has a header whose name"):
            reader.poll(60)
        assert reader.poll(60).offset == bad + 1
    code, _, said = called("tail", topic, "--from-beginning", "--bootstrap", broker.bootstrap)
    assert (code, f"{topic}/0@{bad} has a header whose name is not UTF-8." in said) == (1, True)
