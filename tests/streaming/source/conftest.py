"""A topic of three partitions, connections of our own, readers, and elections."""

import uuid

import pytest

from streaming.disciplines.source import Limits
from streaming.source import fetching, reader, watching
from streaming.source.reader import Inputs, KafkaReader
from streaming.wire import bounds
from streaming.wire.brokers import Brokers
from streaming.wire.topology import Topology
from tests.kafka_helpers import create_topics
from tests.streaming.source.readings import reading_of


@pytest.fixture
def topic(broker):
    name = f"source-{uuid.uuid4().hex[:8]}"
    create_topics(broker.bootstrap, {name: 3})
    return name


@pytest.fixture
def brokers(broker):
    given = Brokers({"bootstrap_servers": broker.bootstrap.split(",")})
    yield given
    given.manager.close()


@pytest.fixture
def reading(broker, topic, monkeypatch):
    """Makes readers of the topic; positions pass through JSON, as in a checkpoint."""
    monkeypatch.setattr(reader, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(watching, "REFRESH_SECONDS", 0.0)
    given = []

    def make(accepted=None, records_max=0, keys=(), pace=None):
        inputs = Inputs(topics={topic: 0}, properties={"bootstrap.servers": broker.bootstrap})
        what = reading_of(topic, Limits(records_max), keys=keys)
        given.append(KafkaReader(inputs, what, accepted, pace))
        return given[-1]

    yield make
    for each in given:
        each.close()


@pytest.fixture
def elected(monkeypatch):
    """Leaders have been elected since; says where the old epoch ends now, and keeps who was asked.

    (For real: `test_elections`.)
    """
    asked = []

    def make(end):
        def answer(_brokers, epochs):
            asked.append(epochs)
            return dict.fromkeys(epochs, end)

        for module in (watching, fetching):
            monkeypatch.setattr(module, "epoch_ends", answer)
        return asked

    monkeypatch.setattr(Topology, "require", lambda *_arguments: None)  # it knows the one broker
    ask = bounds.BoundsReader.__call__
    monkeypatch.setattr(
        *(bounds.BoundsReader, "__call__"),
        lambda self, which: {
            topic: {at: bound._replace(epoch=bound.epoch + 5) for at, bound in of.items()}
            for topic, of in ask(self, which).items()
        },
    )
    return make
