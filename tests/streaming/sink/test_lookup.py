"""Subscribers' own topics: their one key stays where it is when they are given partitions."""

import dataclasses
import time

import pytest

from streaming.arrow.partitioner import partition_of
from streaming.disciplines.plan import Plan
from streaming.errors import KafkaUnavailable
from streaming.sink import lookup
from streaming.sink.lookup import look_up
from tests.kafka_helpers import Record, add_partitions, create_topics, produce


def make_plan(broker, prefix):
    return Plan(
        service="s",
        pipeline="p",
        inputs=("in",),
        output=prefix + "to.{subscriber}.x",
        rejects="",
        events="",
        partitions={},
        producer={"bootstrap.servers": broker.bootstrap},
    )


def test_a_subscriber_stays_where_it_was_read(broker, topic_prefix, monkeypatch):
    plan = make_plan(broker, topic_prefix)
    names = [f"member-{n}" for n in range(8)]
    topics = {name: plan.output.replace("{subscriber}", name) for name in names}
    counts = {name: 1 + n % 3 for n, name in enumerate(names)}
    create_topics(broker.bootstrap, {topics[name]: counts[name] for name in names})

    def homes():
        monkeypatch.setattr(lookup, "_found", {})  # as a new worker
        return {name: partition_of(name.encode(), look_up(plan, topics[name])) for name in names}

    before = {name: partition_of(name.encode(), counts[name]) for name in names}
    assert homes() == before
    for name in names[1:]:
        record = Record(name.encode(), b"v", partition=before[name])
        produce(broker.bootstrap, topics[name], [record])
    for name in names:
        add_partitions(broker.bootstrap, topics[name], 5)
    assert homes() == {**before, names[0]: partition_of(names[0].encode(), 5)}


def test_a_topic_that_cannot_be_made_is_named_at_once(broker, topic_prefix):
    plan = make_plan(broker, topic_prefix)
    plan = dataclasses.replace(plan, create_topics=True, new_topics={"no.such.setting": "1"})
    topic = plan.output.replace("{subscriber}", "B")
    began = time.monotonic()
    with pytest.raises(
        KafkaUnavailable, match=rf"{topic} is missing and could not be created \(.*"
    ):
        look_up(plan, topic)
    assert time.monotonic() - began < lookup.SECONDS_MAX / 2
