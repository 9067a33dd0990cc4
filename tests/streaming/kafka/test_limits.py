"""What topics take, against a real Kafka: new ones take all that inputs take, others are compared."""

from __future__ import annotations

import time

import pytest

from streaming.disciplines.plan import Plan
from streaming.errors import ConfigError, KafkaUnavailable
from streaming.kafka import limits, topics
from streaming.sink import lookup
from streaming.sink.lookup import look_up
from tests.kafka_helpers import Record, make_topic, produce, read_all, until

LARGE, FAR = 3_000_000, 10**15
DAY_MS = 86_400_000


@pytest.fixture
def make(broker, topic_prefix):
    """Gives a function that makes a topic with settings; without a prefix in its name."""

    def make_one(name, **settings):
        make_topic(broker.bootstrap, topic_prefix + name, **settings)

    return make_one


def test_new_topics_take_every_size_and_timestamp_that_inputs_take(
    broker, make, config, topic_prefix
):
    make("a.in", max_message_bytes=LARGE, message_timestamp_after_max_ms=FAR)
    settings = config(a={})
    topics.create(settings, inputs=False)
    roles = ("out", "rejects", "events")
    found = limits.read(settings, [f"{topic_prefix}a.{role}" for role in roles])
    assert len(found) == 3
    for each in found.values():
        assert each.bytes_max == LARGE + limits.ADDED_BYTES
        assert (each.after_ms, each.before_ms) == (limits.UNLIMITED, limits.UNLIMITED)
        assert not each.compacted
    now_ms = round(time.time() * 1000)
    stamps = [0, 1, now_ms + 365 * DAY_MS, now_ms + FAR]
    sent = [Record(None, b"v", timestamp=stamp) for stamp in stamps]
    for role in roles:
        produce(broker.bootstrap, f"{topic_prefix}a.{role}", sent)
    written = read_all(broker.bootstrap, f"{topic_prefix}a.out")
    assert sorted(each.timestamp for each in written)[2:] == stamps[2:]


def test_new_topics_take_every_timestamp_where_there_is_no_input_yet(config, topic_prefix):
    settings = config(a={})
    topics.create(settings, inputs=True)
    (found,) = limits.read(settings, [f"{topic_prefix}a.out"]).values()
    assert found.after_ms == limits.UNLIMITED


def test_settings_of_older_brokers():
    before_3_6 = limits.Limits.of({"max.message.bytes": "7", limits.DIFFERENCE: "5"})
    assert (before_3_6.bytes_max, before_3_6.after_ms, before_3_6.before_ms) == (7, 5, 5)
    before_4_0 = limits.Limits.of({limits.DIFFERENCE: "5", limits.AFTER: "9", limits.BEFORE: "3"})
    assert (before_4_0.after_ms, before_4_0.before_ms) == (5, 3)
    by_broker = limits.Limits.of({limits.AFTER: "9", "message.timestamp.type": "LogAppendTime"})
    assert by_broker.after_ms == limits.UNLIMITED


def test_outputs_that_take_less_than_an_input_are_refused(make, config, topic_prefix):
    make("a.in")
    make("b.in", max_message_bytes=LARGE, message_timestamp_after_max_ms=FAR)
    make("a.out", max_message_bytes=2_000_000)
    make("a.rejects", cleanup_policy="compact", max_message_bytes=LARGE,
         message_timestamp_after_max_ms=FAR)  # fmt: skip
    make("a.events", max_message_bytes=5_000)
    settings = config(a={"input": [topic_prefix + "a.in", topic_prefix + "b.in"]})
    pipeline = topic_prefix + "a"
    with pytest.raises(ConfigError) as refused:
        limits.require(settings, [pipeline])
    error = refused.value
    for part in (
        f"{pipeline}.out has max.message.bytes = 2000000, but {topic_prefix}b.in, whose records "
        "it gets, 3000000",
        f"{pipeline}.out has message.timestamp.after.max.ms = 3600000",
        f"{pipeline}.rejects is compacted, and rejects may have no key",
    ):
        assert part in error.message
    assert "events" not in error.message
    assert "Nothing was started." in error.effect
    mending = f"--alter --entity-type topics --entity-name {pipeline}.out --add-config"
    assert f"{mending} max.message.bytes=3000000" in error.remedy
    assert f"{mending} message.timestamp.after.max.ms={FAR}" in error.remedy
    assert "cleanup.policy=delete" in error.remedy


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_transit_topic_that_is_compacted_is_refused(make, config, topic_prefix, policy):
    """Its keys are shards: of what several send to one, the last alone would stay."""
    make("a.in")
    make("a.transit", cleanup_policy=policy)
    settings = config(a={"discipline": "multicast", "order": "clock"})
    with pytest.raises(ConfigError, match=r"a\.transit is compacted, and .* is lost") as refused:
        limits.require(settings, [topic_prefix + "a"])
    assert "transit --add-config cleanup.policy=delete" in refused.value.remedy


def test_a_transit_topic_that_keeps_some_bytes_only_is_named(make, config, topic_prefix):
    """Brokers may have a limit for all topics that have none of their own."""
    make("a.in")
    make("a.transit", retention_bytes=1_000_000)
    settings = config(a={"discipline": "multicast", "order": "clock"})
    (said,) = limits.remarks(settings, settings.pipelines)
    assert f"{topic_prefix}a.transit has retention.bytes = 1000000" in said
    assert "Set retention.bytes = -1" in said
    make("b.in")
    settings = config(b={"discipline": "multicast", "order": "clock"})
    topics.create(settings, inputs=False)
    found = limits.read(settings, [f"{topic_prefix}b.transit"])[f"{topic_prefix}b.transit"]
    assert found.retained == -1
    own = topics._settings("transit", {})
    assert own == {"retention.ms": "-1", "retention.bytes": "-1"}, "brokers' defaults change"


def test_brokers_stamp_records_of_an_input(make, config, topic_prefix):
    """None of them is ahead; old ones there may be, if the service stood."""
    make("a.in", message_timestamp_type="LogAppendTime")
    make("a.out")
    make("a.rejects", message_timestamp_before_max_ms=5_000)
    settings = config(a={})
    with pytest.raises(ConfigError) as refused:
        limits.require(settings, [topic_prefix + "a"])
    assert f"{topic_prefix}a.rejects has message.timestamp.before.max.ms" in refused.value.message
    assert "message.timestamp.after.max.ms" not in refused.value.message
    assert limits.remarks(settings, settings.pipelines) == []


def test_brokers_that_stamp_deliveries_are_named(make, config, topic_prefix):
    make("a.in")
    for name in ("out", "rejects", "events"):
        make(f"a.{name}", message_timestamp_type="LogAppendTime")
    settings = config(a={})
    limits.require(settings, settings.pipelines)
    said = limits.remarks(settings, settings.pipelines)
    assert [line.split()[0] for line in said] == [
        topic_prefix + "a.out",
        topic_prefix + "a.rejects",
    ]
    assert all("Set message.timestamp.type = CreateTime." in line for line in said)


def test_topics_with_equal_limits_will_do(make, config, topic_prefix):
    for name in ("a.in", "a.out", "a.rejects", "a.events"):
        make(name)
    limits.require(config(a={}), [topic_prefix + "a"])


def test_what_is_between_two_pipelines_counts_as_the_first_one_s_inputs(make, config, topic_prefix):
    make("a.in")
    make("b.out")
    settings = config(a={}, b={"input": topic_prefix + "a.out"})
    topics.create(settings, inputs=False)
    limits.require(settings, list(settings.pipelines))
    make("far.in", message_timestamp_after_max_ms=FAR)
    settings = config(a={"input": topic_prefix + "far.in"}, b={"input": topic_prefix + "a.out"})
    with pytest.raises(ConfigError, match=r"b\.out has .*but .*far\.in"):
        limits.require(settings, list(settings.pipelines))


def test_topics_that_are_read_and_compacted_are_named(make, config, topic_prefix):
    make("a.in", cleanup_policy="compact")
    make("b.in")
    settings = config(a={}, b={}, c={})
    make("b.commands", cleanup_policy="compact")
    inputs, commands = limits.remarks(settings, settings.pipelines)
    assert f"The input {topic_prefix}a.in is compacted" in inputs
    assert f"The topic of commands {topic_prefix}b.commands is compacted" in commands
    assert limits.remarks(settings, [topic_prefix + "c"]) == []


def test_limits_of_a_topic_that_is_not_there_are_not_read(config, topic_prefix):
    assert limits.read(config(a={}), [topic_prefix + "a.in"]) == {}


def test_a_topic_that_turns_out_to_be_missing_is_made_like_the_others(
    broker, make, config, topic_prefix, monkeypatch
):
    make("a.in", max_message_bytes=LARGE)
    settings = config(a={})
    wanted = limits.settings(settings, [topic_prefix + "a.in"])
    name = topic_prefix + "of.a-new-subscriber"
    plan = Plan(
        service="s",
        pipeline="p",
        inputs=("in",),
        output="",
        rejects="",
        events="",
        partitions={},
        create_topics=True,
        new_topics=wanted,
        producer={"bootstrap.servers": broker.bootstrap},
    )
    assert look_up(plan, name) == 1
    monkeypatch.setattr(lookup, "SECONDS_MAX", 1)
    with pytest.raises(KafkaUnavailable, match=r"could not be created \(.* collides with"):
        look_up(plan, topic_prefix + "of_a-new-subscriber")
    until(lambda: limits.read(settings, [name]))
    (found,) = limits.read(settings, [name]).values()
    assert found.bytes_max == LARGE + limits.ADDED_BYTES
    assert found.after_ms == limits.UNLIMITED
