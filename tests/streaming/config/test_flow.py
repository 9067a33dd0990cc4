"""Which topics pipelines may share, and circles of them."""

from __future__ import annotations

import pytest

from streaming.config import parse_config
from streaming.errors import ConfigError


def flow(**pipelines):
    """Faults of channel pipelines, or of others where they name their discipline."""
    tables = {name: {"discipline": "channel", **each} for name, each in pipelines.items()}
    try:
        parse_config({"pipelines": tables}, {}, "c.toml")
    except ConfigError as error:
        return list(error.faults)
    return []


def test_what_pipelines_may_share():
    assert flow(a={}, b={"input": "a.out"}, c={"input": ["a.out", "b.out"]}) == []
    assert flow(a={"input": "x"}, b={"input": "x"}) == []
    assert flow(a={}, again={"input": "a.rejects"}) == []
    assert flow(a={"output": "g.commands"}, g={"discipline": "group"}) == []
    assert flow(raw={"input": "g.commands"}, g={"discipline": "group"}) == []


@pytest.mark.parametrize("role", ["output", "rejects", "events"])
def test_nobody_writes_where_another_does(role):
    assert flow(a={}, b={role: "a.out"}) == [
        f"pipelines.b.{role}: a.out is pipelines.a.output already; use another topic"
    ]
    assert flow(a={role: "a.in"}) == [
        f"pipelines.a.{role}: a.in is pipelines.a.input already; use another topic"
    ]


@pytest.mark.parametrize("topic", ["a.in", "a.out", "b.out", "b.events", "b.commands", "b_out"])
def test_marks_of_progress_have_a_topic_of_their_own(topic):
    """A mark in an output is read as a delivery, in commands as a command, in an input it loops."""
    assert len(flow(a={"progress": topic}, b={"progress": True})) == 1
    assert flow(a={"progress": True}, b={"output": "a.progress"}) == [
        "pipelines.b.output: a.progress is pipelines.a.progress already; use another topic"
    ]


def test_progress_of_another_can_be_an_input():
    assert flow(a={"progress": True}, b={"input": "a.progress"}) == []
    assert flow(a={"progress": ""}, b={"progress": ""}, c={"progress": False}) == []
    assert flow(a={"output": "b.progress"}, b={}) == []


def test_topics_of_one_pipeline_differ():
    assert flow(a={"rejects": "x", "events": "x"}) == [
        "pipelines.a.events: x is pipelines.a.rejects already; use another topic"
    ]
    group = {"discipline": "group", "sequencing": "network"}
    assert len(flow(a={**group, "transit": "a.in"})) == 1
    assert flow(a={**group, "transit": "a.in", "sequencing": "batch"}) == []
    assert len(flow(a={**group, "commands": "a.in"})) == 1
    assert len(flow(a={**group, "commands": "a.out"})) == 1


def test_transit_and_commands_belong_to_one_pipeline():
    group = {"discipline": "group", "sequencing": "network"}
    assert flow(a={"discipline": "group"}, b={"input": "a.transit"}) == []
    assert len(flow(a=group, b={"input": "a.transit"})) == 1
    assert len(flow(a=group, b={**group, "commands": "a.commands"})) == 1
    assert (
        len(flow(a=group, b={"discipline": "multicast", "order": "clock", "transit": "a.transit"}))
        == 1
    )
    assert flow(a=group, b={"discipline": "multicast", "transit": "a.transit"}) == []


def test_a_subscriber_s_topic_clashes_too():
    group = {"discipline": "group", "output": "a.{subscriber}"}
    assert flow(a={**group, "groups": {"G": ["x", "y"]}}) == []
    assert flow(a={**group, "groups": {"G": ["x", "events"]}}) == [
        "pipelines.a.events: a.events is pipelines.a.output already; use another topic"
    ]
    (fault,) = flow(a={**group, "groups": {"G": ["x"]}}, b={"input": "a.x", "output": "a.in"})
    assert fault.startswith(
        "pipelines.b.input: the pipelines a → b → a feed each other in a circle"
    )


def test_topics_of_subscribers_belong_to_one_pipeline():
    """Also where no member is in both yet: one may join."""
    group = {"discipline": "group", "groups": {"G": ["x"]}}
    one, other = {**group, "output": "to.{subscriber}"}, {"discipline": "group"}
    assert flow(a=one, b={**other, "output": "at.{subscriber}"}) == []
    assert flow(a=one, b={**other, "output": "to.{subscriber}"}) == [
        "pipelines.b.output: to.{subscriber} is pipelines.a.output already; use another topic"
    ]
    (fault,) = flow(a=one, b={**other, "output": "to_{subscriber}"})
    assert "Kafka does not take to_{subscriber} beside to.{subscriber}" in fault


def test_kafka_takes_dot_and_underscore_for_one():
    (fault,) = flow(a={"output": "x.y", "events": "x_y"})
    assert "pipelines.a.events: Kafka does not take x_y beside x.y (pipelines.a.output)" in fault


def test_circles_are_refused_each_once():
    assert len(flow(a={"input": "b.out"}, b={"input": "a.out"})) == 1
    assert len(flow(a={"input": "b.rejects"}, b={"input": "a.out"})) == 1
    two = flow(
        a={"input": "b.out"}, b={"input": "a.out"}, c={"input": "d.out"}, d={"input": "c.out"}
    )
    assert len(two) == 2
    long = {f"p{n}": {"input": f"p{(n + 1) % 9}.out"} for n in range(9)}
    (fault,) = flow(**long)
    assert all(f"p{n}" in fault for n in range(9))
    assert flow(c={"input": "g.out", "output": "g.commands"}, g={"discipline": "group"})


def test_many_pipelines_that_all_feed_each_other_are_judged_at_once():
    names = [f"p{n}" for n in range(14)]
    inputs = {name: [f"{each}.out" for each in names if each != name] for name in names}
    told = flow(**{name: {"input": each} for name, each in inputs.items()})
    assert len(told) <= 14 * 13
    assert all("circle" in each for each in told)
