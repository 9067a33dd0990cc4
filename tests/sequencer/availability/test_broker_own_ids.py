"""Topics of the broker that are joined in mid-stream, and publishers that bring their own ids."""

import pytest

from sequencer.availability import BrokerClosed, IdTaken, LocalBroker, Mode, Subscription
from sequencer.availability.drafts import Tree
from sequencer.availability.ring import RingEntry, State, TopicRing
from sequencer.availability.word import ID_MAX
from tests.sequencer.availability.broker_reads import NOW, SOON, WAIT, filled, payloads


def test_a_topic_is_joined_in_mid_stream():
    broker = LocalBroker(capacity=32)
    early, newest = broker.subscribe("relay/camera"), broker.subscribe("relay", "newest")
    from_zero = broker.subscribe("relay/camera", start=0)
    for message_id in (1000, 1002, 1001):
        broker.publish("relay/camera", message_id, NOW, message_id)
    assert dict(broker.publish("relay/camera", 1003, NOW)) == {"relay/camera": 1003, "relay": 3}
    got = payloads(early)
    assert [(m.id, m.payload) for m in got] == [(i, i) for i in range(1000, 1004)]
    assert got[0].missed == range(1000, 1000), "the topic has no ids below its first"
    assert payloads(from_zero)[0].missed == range(1000), "who asked for them is told"
    assert [m.id for m in payloads(newest)] == [3], "enclosing topics count for themselves"
    with pytest.raises(IdTaken, match="id 999 is too old, the next one is 1004"):
        broker.reserve("relay/camera", WAIT, 999)
    for n in range(1004, 1100):
        broker.publish("relay/camera", n, NOW)
    assert [m.id for m in payloads(broker.subscribe("relay/camera", start=0))] == [
        *range(1068, 1100)
    ]


class BeginsUnseen(TopicRing):
    """A ring whose topic begins, at 1000, right after a look at whether it has begun."""

    @property
    def begun(self):
        begun = super().begun
        if not begun:
            entry = RingEntry(self.name)
            entry.settle(State.PUBLISHED)
            self.take(entry, 1000)
            self.publish(entry)
        return begun


@pytest.mark.parametrize("mode", Mode)
def test_a_topic_that_begins_while_its_reader_looks_has_nothing_below_its_first(mode):
    ring = TopicRing("relay", capacity=64)
    reader = Subscription(ring, Tree(closed=False), mode, start=None)
    reader._ring = BeginsUnseen("relay", capacity=64)
    message = reader.read(NOW)
    assert (message.id, message.missed) == (1000, range(1000, 1000))


def test_an_own_id_belongs_to_one_publisher():
    broker = LocalBroker()
    draft = filled(broker, "t", "next")
    early = broker.reserve("t", NOW, 3)
    for taken in (0, 3):
        with pytest.raises(IdTaken, match=f"id {taken} is reserved or published"):
            broker.reserve("t", WAIT, taken)
    draft.publish()
    early.fill("own")
    early.publish()
    for taken in (0, 3):
        with pytest.raises(IdTaken, match=f"id {taken} is reserved or published"):
            broker.reserve("t", WAIT, taken)
    assert broker.publish("t", "after", NOW)["t"] == 4, "the next id is above all that are taken"
    with pytest.raises(ValueError, match="ids are 0 or more"):
        broker.reserve("t", NOW, -1)
    with pytest.raises(OverflowError, match="Nothing was reserved"):
        broker.reserve("t", NOW, ID_MAX + 1)


def test_an_id_that_was_passed_over_is_waited_for_until_it_is_published_or_given_up():
    broker = LocalBroker(capacity=4)
    reader = broker.subscribe("t")
    broker.publish("t", 0, NOW)
    broker.publish("t", 2, NOW, 2)
    assert [m.payload for m in payloads(reader)] == [0]
    assert broker.oldest_open("t") is None, "nobody has id 1"
    broker.publish("t", 3, NOW)
    broker.publish("t", 4, NOW)
    with pytest.raises(TimeoutError, match="waits for id 1, which nobody has reserved"):
        broker.publish("t", 5, SOON)
    broker.publish("t", 1, NOW, 1)
    assert [m.payload for m in payloads(reader)] == [1, 2, 3, 4]
    broker.publish("t", 7, NOW, 7)
    for given_up in (5, 6):
        broker.reserve("t", NOW, given_up).abandon()
    assert [(m.payload, m.missed) for m in payloads(reader)] == [(7, range(5, 7))]


def test_an_own_id_far_ahead_waits_for_the_ids_before_it():
    broker = LocalBroker(capacity=4)
    broker.publish("t", 0, NOW)
    with pytest.raises(TimeoutError, match="waits for id 1, which nobody has reserved"):
        broker.reserve("t", SOON, 5)
    broker.publish("t", 1, NOW)
    assert dict(broker.reserve("t", NOW, 5).ids) == {"t": 5}


def test_close_gives_up_what_was_passed_over():
    broker = LocalBroker()
    reader, newest = broker.subscribe("a/t"), broker.subscribe("a", "newest")
    held = broker.reserve("a/t", NOW, 2)
    broker.publish("a/t", "four", NOW, 4)
    assert payloads(reader) == []
    broker.close()
    with pytest.raises(TimeoutError):
        reader.read(NOW)  # the draft with id 2 is still open
    held.fill("two")
    held.publish()
    got = [reader.read(WAIT) for _ in range(2)]
    assert [(m.payload, m.missed) for m in got] == [("two", range(2)), ("four", range(3, 4))]
    assert newest.read(NOW).payload == "four"
    with pytest.raises(BrokerClosed):
        reader.read(WAIT)
