"""Labels from a producer's next one on: asked for, they are said never to come, and never do."""

import json

import pytest

from sequencer import CustomLabels, CyclicLabels, LinearLabels
from streaming import LabelledProducer
from streaming.clients import labelled
from streaming.errors import SequencerError


class NoListener:
    def __init__(self, *given):
        pass

    def take_failure(self):
        pass

    close = take_failure


class Way:
    """A producer that is asked directly; what it hands to Kafka is noted and taken at once."""

    def __init__(self, labels=None):
        self.sent, self.said, self.meanwhile = [], [], None
        where = {"bootstrap.servers": "127.0.0.1:1"}
        self.producer = LabelledProducer(where, "t.in", labels=labels, epoch=7, keep=9)
        self.producer._produce = self.take

    def take(self, key, value, headers, *_, topic=None, **_more):
        if topic is not None:
            said = json.loads(value)
            self.said.append((key, said["from"], said["to"]))
            return
        if self.meanwhile is not None:
            self.meanwhile()
        self.sent.append((key, dict(headers)["label"]))

    def send(self, channel="a", **how):
        return self.producer.send(channel, b"x", **how)

    def ask(self, first, stop, channel=b"a", epoch=7):
        self.producer._answer(channel, epoch, first, stop)


@pytest.fixture
def way_of(monkeypatch):
    monkeypatch.setattr(labelled, "Listener", NoListener)
    return Way


def test_labels_from_the_next_one_on_are_never_sent(way_of):
    way = way_of(LinearLabels(10, 5))
    assert [way.send(), way.send()] == [10, 15]
    way.ask(20, 35, b"b")
    way.ask(20, 35, epoch=8)
    way.ask(20, 10 + 5 * 2**40)
    assert way.said == [], "another channel, another epoch, farther than any window"
    way.ask(15, 35)
    assert way.said == [(b"a", 20, 35)]
    assert [way.send(), way.send(), way.send("b")] == [35, 40, 10]
    way.ask(25, 35)
    assert way.said[1:] == [(b"a", 25, 35)]
    way.ask(55, 60)
    assert way.said[2:] == [(b"a", 45, 60)], "it moves to the end, so those before are not sent"
    assert way.send() == 60
    assert way.producer.not_coming == 3 + 2 + 3


def test_a_label_on_its_way_is_not_given_away(way_of):
    way = way_of()
    way.send()
    way.meanwhile = lambda: way.ask(1, 4)
    assert way.send() == 1
    assert way.said == [(b"a", 2, 4)]
    way.meanwhile = None
    assert way.send() == 4


@pytest.mark.parametrize("how", [{}, {"label": 6}])
def test_one_that_could_not_be_sent_is_left_out_where_those_behind_it_were_given_away(way_of, how):
    way = way_of()
    way.send()

    def fail():
        way.ask(1, 9)
        raise SequencerError("The queue is full.")

    way.meanwhile = fail
    with pytest.raises(SequencerError, match="full"):
        way.send(**how)
    way.meanwhile = None
    if how:
        assert way.said == [], "labels of your own are yours"
        assert way.send() == 1
    else:
        assert way.said == [(b"a", 2, 9)]
        assert way.send() == 9
        way.ask(1, 9)
        assert way.said[1:] == [(b"a", 2, 9), (b"a", 1, 2)]


def test_one_that_could_not_be_sent_has_its_label_again(way_of):
    way = way_of()

    def fail():
        raise SequencerError("The queue is full.")

    for label in (0, 1):
        way.meanwhile = fail
        with pytest.raises(SequencerError, match="full"):
            way.send()
        way.ask(5, 6, b"b")
        way.meanwhile = None
        assert way.send() == label


def test_where_they_cannot_be_left_out_nothing_is_said(way_of):
    """In a cycle it may be a label of the one before; numbers of an outbox are the caller's."""
    custom = CustomLabels("0", lambda text: str(int(text) + 1))
    for labels, how in ((CyclicLabels(16), {}), (custom, {}), (None, {"label": 1}), (None, {})):
        way = way_of(labels)
        way.send(**how)
        first, stop = (labels or LinearLabels()).at(4), (labels or LinearLabels()).at(7)
        way.ask(first, stop)
        assert bool(way.said) == (labels is None and not how)


def test_the_last_label_of_a_sequence(way_of):
    way = way_of(LinearLabels(2**63 - 3))
    assert way.send() == 2**63 - 3
    way.ask(2**63 - 2, 2**63 - 1)
    assert way.send() == 2**63 - 1
    with pytest.raises(OverflowError):
        way.send()
