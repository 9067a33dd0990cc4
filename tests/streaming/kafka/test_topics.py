"""Topics against a real Kafka: what is needed, what is missing, what is created and how."""

from __future__ import annotations

import threading

import pytest

from streaming.config import parse_config
from streaming.errors import ConfigError, KafkaRefused, KafkaUnavailable
from streaming.kafka import limits, topics
from streaming.kafka.ports import free_port
from tests.kafka_helpers import (
    SECONDS_MAX,
    Record,
    create_topics,
    make_topic,
    produce,
    read_all,
    until,
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """What is missing here stays so."""
    monkeypatch.setattr(topics, "NEW_SECONDS_MAX", 0.2)


def until_missing(settings, expected):
    """Wait until nothing else is missing: a broker may list a new topic some moments later."""
    until(
        lambda: [topic.name for topic in topics.missing(settings)] == expected,
        f"only {expected} missing",
    )


def names(found, prefix):
    return {(topic.name.removeprefix(prefix), topic.role, topic.partitions) for topic in found}


def test_an_input_that_another_process_writes_is_not_asked_of_users(config, broker, topic_prefix):
    """`run --pipeline b` may be the first to start; it creates the topics that the file writes."""
    create_topics(broker.bootstrap, {topic_prefix + "a.in": 1})
    settings = config(a={}, b={"input": [topic_prefix + "a.out", topic_prefix + "users"]})
    with pytest.raises(ConfigError) as error:
        topics.require(settings, [topic_prefix + "b"], inputs_only=True)
    assert f"{topic_prefix}users ({topic_prefix}b, input)" in error.value.message
    assert topic_prefix + "a.out" not in error.value.message
    with pytest.raises(ConfigError) as error:
        topics.require(settings, [topic_prefix + "b"])
    assert f"{topic_prefix}a.out ({topic_prefix}a, output)" in error.value.message
    assert topic_prefix + "a.rejects" not in error.value.message
    made = topics.create(settings, inputs=False, names=[topic_prefix + "b"])
    assert {name.removeprefix(topic_prefix) for name in made} == {
        "a.out", "b.out", "b.rejects", "b.events", "b.commands",
    }, "b's user may have no right to create the others"  # fmt: skip


def test_needed_and_missing(config, broker, topic_prefix):
    create_topics(broker.bootstrap, {topic_prefix + "a.in": 3})
    settings = config(a={}, b={"input": [topic_prefix + "a.out", topic_prefix + "a.in"]})
    assert names(topics.needed(settings), topic_prefix) == {
        ("a.in", "input", 3),
        *((f"{each}.{role[:3] if role == 'output' else role}", role, None)
          for each in "ab" for role in ("output", "rejects", "events", "commands")),
    }  # fmt: skip
    assert [topic.name for topic in topics.missing(settings)] == [
        f"{topic_prefix}{name}"
        for pipeline in "ab"
        for name in (f"{pipeline}.{role}" for role in ("out", "rejects", "events", "commands"))
    ]


def test_created_topics_have_the_first_input_s_partitions(config, broker, topic_prefix):
    create_topics(broker.bootstrap, {topic_prefix + "a.in": 3, topic_prefix + "other": 5})
    settings = config(
        c={"input": topic_prefix + "b.out"},  # a chain, its last link first
        b={"input": [topic_prefix + "a.out", topic_prefix + "other"]},
        a={"input": [topic_prefix + "a.in", topic_prefix + "other"]},
    )
    made = topics.create(settings, inputs=False)
    assert len(made) == len(set(made)) == 12
    until_missing(settings, [])
    partitions = topics.partitions(settings, made)
    assert {partitions.pop(f"{topic_prefix}{name}.commands") for name in "abc"} == {1}
    assert set(partitions.values()) == {3}
    assert topics.create(settings, inputs=False) == topics.create(settings, inputs=True) == []


def test_inputs_are_created_only_where_asked_for(config, topic_prefix):
    settings = config(g={"discipline": "group", "sequencing": "network"})
    made = topics.create(settings, inputs=False)
    assert {name.removeprefix(topic_prefix) for name in made} == {
        "g.out", "g.rejects", "g.events", "g.transit", "g.commands",
    }  # fmt: skip
    pipeline = topic_prefix + "g"
    with pytest.raises(ConfigError) as refused:
        topics.require(settings, [pipeline])
    for part in (f"{pipeline}.in ({pipeline}, input)", "Nothing was"):
        assert part in str(refused.value)
    assert refused.value.remedy.endswith("sequencer topics c.toml --create")
    assert refused.value.exit_status == 2
    made = topics.create(settings, inputs=True)
    assert made == [f"{pipeline}.in"]
    topics.require(settings, [pipeline])
    assert set(topics.partitions(settings, made).values()) == {topics.PARTITIONS_DEFAULT}


def test_only_the_chosen_pipelines_topics_are_required(config, broker, topic_prefix):
    create_topics(broker.bootstrap, {topic_prefix + "a.in": 1})
    settings = config(a={}, b={}, c={"input": topic_prefix + "b.in"})
    topics.create(settings, inputs=False)
    topics.require(settings, [topic_prefix + "a"])
    for name in ("b", "c"):  # both read the input that is missing
        with pytest.raises(ConfigError, match=rf"b\.in \({topic_prefix}{name}, input\)"):
            topics.require(settings, [topic_prefix + name])


def test_each_subscriber_s_topic_is_created(config, topic_prefix):
    output = topic_prefix + "to.{subscriber}"
    groups = {"G0": ["x", "y"], "G1": ["y", "z"]}
    settings = config(g={"discipline": "group", "output": output, "groups": groups})
    made = topics.create(settings, inputs=True)
    outputs = {name for name in made if ".to." in name}
    assert outputs == {output.replace("{subscriber}", each) for each in "xyz"}


def test_what_another_created_meanwhile_is_no_fault(config, monkeypatch):
    settings = config(a={})
    before, now = topics.existing(settings), topics.existing
    assert len(topics.create(settings, inputs=True)) == 5
    stale = [before]  # the first answer is from before the other created them
    monkeypatch.setattr(topics, "existing", lambda of, **_: stale.pop() if stale else now(of))
    assert topics.create(settings, inputs=True) == []


def test_what_kafka_refuses_is_named(config, broker, topic_prefix):
    create_topics(broker.bootstrap, {topic_prefix + "a.in": 1, topic_prefix + "a_events": 1})
    settings = config(a={})
    with pytest.raises(KafkaUnavailable) as refused:
        topics.create(settings, inputs=False)
    assert f"{topic_prefix}a.events (" in refused.value.message
    assert "collides with existing topic" in refused.value.message
    for name in ("a.out", "a.rejects"):
        assert topic_prefix + name in refused.value.effect
    until_missing(settings, [topic_prefix + "a.events"])


def test_partitions_of_what_is_missing(config, topic_prefix):
    with pytest.raises(ConfigError, match=rf"missing in Kafka: {topic_prefix}x\..*--create"):
        topics.partitions(config(a={}), [topic_prefix + "x"])


def test_what_was_deleted_gets_as_many_partitions_as_it_had(broker, config, topic_prefix):
    create_topics(broker.bootstrap, {topic_prefix + "a.in": 2})
    settings = config(a={})
    output = settings.pipelines[topic_prefix + "a"].output
    topics.create(settings, inputs=False, known=lambda: {output: 5, "another": 7})
    found = {each.role: each.partitions for each in topics.needed(settings)}
    assert (found["output"], found["rejects"]) == (5, 2)


def test_what_is_being_made_elsewhere_is_waited_for(broker, config, topic_prefix, monkeypatch):
    monkeypatch.setattr(topics, "NEW_SECONDS_MAX", SECONDS_MAX)
    made = topic_prefix + "late"
    elsewhere = threading.Timer(0.3, create_topics, (broker.bootstrap, {made: 3}))
    elsewhere.start()
    assert topics.partitions(config(a={}), [made]) == {made: 3}
    elsewhere.join(SECONDS_MAX)


def test_no_kafka(monkeypatch):
    address = f"127.0.0.1:{free_port()}"
    monkeypatch.setattr(topics, "SECONDS_MAX", 1)
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "geheim"}
    tables = {
        "kafka": {"bootstrap_servers": address, "properties": login},
        "pipelines": {"p": {"discipline": "channel"}},
    }
    with pytest.raises(KafkaUnavailable, match=address) as refused:
        topics.needed(parse_config(tables, {}, "c.toml"))
    assert "geheim" not in str(refused.value)


def test_records_can_be_deleted_before_an_offset(broker, topic_prefix):
    name = topic_prefix + "transit"
    create_topics(broker.bootstrap, {name: 2})
    produce(broker.bootstrap, name, [Record(b"k", b"v", partition=n % 2) for n in range(20)])
    settings = parse_config(
        {
            "kafka": {"bootstrap_servers": broker.bootstrap},
            "pipelines": {"p": {"discipline": "channel"}},
        },
        {},
        "c.toml",
    )
    topics.delete_before(settings, name, {0: 5, 1: 10})
    left = [(r.partition, r.offset) for r in read_all(broker.bootstrap, name)]
    assert sorted(left) == [(0, offset) for offset in range(5, 10)]
    with pytest.raises(KafkaUnavailable, match="2 has no leader.*tried again") as passing:
        topics.delete_before(settings, name, {2: 1})
    assert not isinstance(passing.value, KafkaRefused)
    assert "nothing else" not in str(passing.value), "the topic may have been deleted"


def test_old_records_of_a_transit_topic_that_was_set_to_compaction_are_not_deleted(
    broker, config, topic_prefix
):
    name = topic_prefix + "a.transit"
    make_topic(broker.bootstrap, name, cleanup_policy="compact")
    produce(broker.bootstrap, name, [Record(b"0", b"v")])
    with pytest.raises(KafkaRefused, match=r"is lost\. Set cleanup\.policy = delete at once"):
        topics.delete_before(config(a={}), name, {0: 1})


def test_new_outputs_take_records_as_large_as_inputs_have(broker, config, topic_prefix):
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    large = NewTopic(topic_prefix + "a.in", 1, config={"max.message.bytes": "3000000"})
    admin.create_topics([large])[topic_prefix + "a.in"].result(30)
    topics.wait_for(config(a={}), {topic_prefix + "a.in"})  # the broker may hear of it last
    topics.create(config(a={}), inputs=False)
    for role in ("out", "rejects", "events"):
        asked = ConfigResource(ResourceType.TOPIC, f"{topic_prefix}a.{role}")
        found = admin.describe_configs([asked])[asked].result(30)
        assert int(found["max.message.bytes"].value) == 3_000_000 + limits.ADDED_BYTES


def test_the_end_of_a_topic_that_has_just_been_made_is_known(broker, topic_prefix, monkeypatch):
    from confluent_kafka import Consumer, KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    try:
        for number in range(10):
            name = f"{topic_prefix}{number}"
            admin.create_topics([NewTopic(name, 1)])[name].result(30)
            # Asked before the broker that leads it has heard of it, as likely as not.
            assert topics.end_of(consumer, TopicPartition(name, 0)) == 0
        monkeypatch.setattr(topics, "SECONDS_MAX", 1)
        with pytest.raises(KafkaException):
            topics.end_of(consumer, TopicPartition(topic_prefix + "none", 0))
    finally:
        consumer.close()
