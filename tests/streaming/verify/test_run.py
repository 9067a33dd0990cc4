"""`sequencer verify` reads the topics of groups and multicasts from a real broker."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from streaming.config import load_config
from streaming.errors import KafkaUnavailable
from streaming.kafka.embedded import EmbeddedBroker
from streaming.verify.records import Topics as Reader
from streaming.verify.report import report_on
from streaming.verify.run import JUDGES
from tests.kafka_helpers import SECONDS_MAX, Record, create_topics, produce
from tests.service_helpers import channel_topics, write_config
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts
from tests.streaming.verify.worlds import PARTITIONS, SUBSCRIBERS, Topics, home

OWN = ("in", "rejects", "events", "commands")


def write(bootstrap, world, names):
    """All records of a world into topics of a broker."""
    create_topics(bootstrap, {world.topics.at + name: PARTITIONS for name in names})
    for (topic, _), records in world.topics.records.items():
        some = [Record(r.key, r.value, list(r.headers), r.partition, r.timestamp) for r in records]
        produce(bootstrap, topic, some)


def pipeline(at, discipline, **more):
    names = {"input": "in", "rejects": "rejects", "events": "events", "commands": "commands"}
    topics = {role: at + name for role, name in names.items()}
    return {"discipline": discipline, "transit": f"{at}transit", **topics, **more}


@pytest.fixture
def made(broker, topic_prefix, tmp_path):
    """A group pipeline with a topic for each subscriber, and a multicast pipeline."""
    begin_ms = int(time.time() * 1000)

    def common(name):
        return {"begin_ms": begin_ms, "topics": Topics(holes=False, at=f"{topic_prefix}{name}.")}

    market = random_groups(7, output="to.{subscriber}", **common("market"))
    bus = random_multicasts(7, **common("bus"))
    write(broker.bootstrap, market, [*OWN, *(f"to.{each}" for each in SUBSCRIBERS)])
    write(broker.bootstrap, bus, [*OWN, "out"])
    groups = {name: sorted(members) for name, members in market.configured.items()}
    output = f"{market.topics.at}to.{{subscriber}}"
    own = {"sequencing": "network", "output": output, "groups": groups}
    pipelines = {
        "market": pipeline(market.topics.at, "group", **own),
        "bus": pipeline(bus.topics.at, "multicast", output=f"{bus.topics.at}out"),
    }
    return market, bus, write_config(tmp_path, broker.bootstrap, pipelines)


def test_right_topics_are_in_order_and_faults_are_told(broker, made, capsys):
    market, bus, config = made
    assert report_on(config, wait=0)
    told = capsys.readouterr().out
    for world, name in ((market, "market"), (bus, "bus")):
        count = sum(len(r) for (t, _), r in world.topics.records.items() if not t.endswith(OWN))
        assert f"{name}: in order (" in told
        assert f"{count:,} deliveries" in told

    partition, records = next(
        (partition, records)
        for (topic, partition), records in market.topics.records.items()
        if topic.endswith("to.s1")
    )
    last = records[-1]
    again = Record(last.key, b"other", list(last.headers), partition, last.timestamp)
    produce(broker.bootstrap, last.topic, [again])
    assert not report_on(config, ["market"], wait=0)
    told = capsys.readouterr().out
    assert "market: FAULTS" in told
    assert "rewritten: 1" in told
    assert f"{last.topic}/{partition}@{len(records)}" in told


def test_what_has_not_come_yet_gets_its_time(broker, made, capsys, monkeypatch):
    """The delivery comes after the first look, and is seen by another."""
    _, bus, config = made
    bus.send(b"p0", b"p1", ..., b"late")
    topics = bus.topics.records
    missing = topics[f"{bus.topics.at}out", home(b"p1")][-1]

    def write_it(record):
        again = Record(
            record.key, record.value, list(record.headers), record.partition, bus.begin_ms
        )
        produce(broker.bootstrap, record.topic, [again])

    write_it(topics[f"{bus.topics.at}in", 0][-1])
    assert not report_on(config, ["bus"], wait=0)
    told = capsys.readouterr().out
    assert "unfinished: 1" in told
    assert "1 held" in told

    usual = JUDGES["multicast"]
    looks = []

    def look(asked):
        looks.append(usual.judge(asked))
        if len(looks) == 1:
            write_it(missing)
        return looks[-1]

    monkeypatch.setitem(JUDGES, "multicast", replace(usual, judge=look))
    assert report_on(config, ["bus"], wait=SECONDS_MAX)
    assert len(looks) > 1
    assert "bus: in order (" in capsys.readouterr().out


@pytest.mark.slow
def test_kafka_that_goes_away_while_topics_are_read_is_told(tmp_path):
    with EmbeddedBroker() as broker:
        create_topics(broker.bootstrap, {"in": 1})
        config = write_config(tmp_path, broker.bootstrap, {"p": {"input": "in"}})
        with Reader(load_config(config), lambda *_: None) as topics:
            assert (list(topics.each("in")), topics.partitions("in")) == ([], 1)
            broker.kill()
            with pytest.raises(KafkaUnavailable, match=r"^in could not be read \("):
                list(topics.each("in"))


def test_an_input_that_is_not_there_is_told(broker, topic_prefix, tmp_path, capsys):
    config = write_config(tmp_path, broker.bootstrap, {"p": channel_topics(topic_prefix)})
    assert report_on(config, wait=0)
    assert f"These inputs are not in Kafka: {topic_prefix}" in capsys.readouterr().err


def test_judging_may_take_hours(broker, topic_prefix, tmp_path, monkeypatch):
    """As long as records come, and the judge's own time does not count as a time without any."""
    topic = f"{topic_prefix}in"
    began = now = time.monotonic()
    create_topics(broker.bootstrap, {topic: 1})
    produce(broker.bootstrap, topic, [Record(b"k", b"%d" % n, [], 0) for n in range(12_000)])
    config = load_config(write_config(tmp_path, broker.bootstrap, {"p": {"input": topic}}))
    monkeypatch.setattr("streaming.verify.records.time", SimpleNamespace(monotonic=lambda: now))
    with Reader(config, lambda *_: None) as topics:
        for _ in topics.each(topic):
            now += 1
    assert round(now - began) >= 12_000
