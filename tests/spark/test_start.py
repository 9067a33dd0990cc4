"""The start of the service: what it says, and that it waits for a Kafka that goes away meanwhile."""

import time
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import pytest

from streaming.errors import KafkaUnavailable
from streaming.kafka import rights, topics
from streaming.kafka.embedded import EmbeddedBroker
from streaming.service.pipeline import Pipeline
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import (
    Service,
    WarmService,
    channel_topics,
    status,
    write_config,
)

pytestmark = pytest.mark.timeout(900)
AWAY_SECONDS = 25


def away_once(function):
    """The function, which finds Kafka away when it is first called."""
    calls = []

    def call(*words, **named):
        calls.append(words)
        if len(calls) == 1:
            raise KafkaUnavailable(f"{function.__name__}: no answer.", "Nothing was changed.")
        return function(*words, **named)

    return call


@contextmanager
def kafka_that_goes_away():
    """At each question of a start, Kafka is away once."""
    with ExitStack() as stack:
        for owner, name in (
            (rights, "missing"),
            (topics, "create"),
            (topics, "require"),
            (Pipeline, "start"),
        ):
            stack.enter_context(patch.object(owner, name, away_once(getattr(owner, name))))
        yield


def make(folder, bootstrap, prefix):
    create_topics(bootstrap, {f"{prefix}in": 1})
    produce(bootstrap, f"{prefix}in", [Record(b"k", b"v", [("label", b"0")])])
    return write_config(folder, bootstrap, {"p": channel_topics(prefix)})


def test_a_kafka_that_goes_away_in_the_middle_is_waited_for(broker, topic_prefix, tmp_path):
    config = make(tmp_path, broker.bootstrap, topic_prefix)
    within = f"{__name__}:{kafka_that_goes_away.__name__}"
    with WarmService(config, "--once", within=within) as service:
        assert service.wait() == 0, service.said()
        said = service.said()
    for name in ("missing", "create", "require", "start"):
        assert f"{name}: no answer. Nothing was changed. Trying again" in said
    assert status(config)["p"]["delivered"] == 1
    begun, ready = said.index("starting 1 pipeline (p)"), said.index("ready, 1 pipeline running")
    assert begun < ready
    assert broker.bootstrap in said[begun:ready]
    assert str(tmp_path / "checkpoints") in said[begun:ready]


def test_a_missing_input_is_found_before_topics_are_made(broker, topic_prefix, tmp_path):
    config = write_config(tmp_path, broker.bootstrap, {"p": channel_topics(topic_prefix)})
    with WarmService(config) as service:
        assert service.wait() == 2, service.said()
        assert f"Topics are missing in Kafka: {topic_prefix}in (p, input)." in service.said()
        assert "created topic" not in service.said()


@pytest.mark.slow
@pytest.mark.parametrize("after_s", [0, 0.5, 2, 5])
def test_a_broker_that_stops_during_the_start(topic_prefix, tmp_path, after_s):
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        config = make(tmp_path, broker.bootstrap, topic_prefix)
        with Service(config) as service:
            service.until((tmp_path / "checkpoints" / "p" / "lock").exists)
            time.sleep(after_s)
            broker.stop()
            time.sleep(AWAY_SECONDS)
            broker.start()
            service.until(lambda: status(config)["p"]["delivered"] == 1)
            assert service.stop() == 0, service.said()
        assert "Traceback" not in service.said()
