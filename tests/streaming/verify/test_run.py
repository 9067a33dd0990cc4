"""`sequencer verify` reads the topics of groups and multicasts from a real broker."""

import time

import pytest

from streaming.verify.report import report_on
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import write_config
from tests.streaming.verify.worlds import (
    PARTITIONS,
    SUBSCRIBERS,
    Topics,
    random_groups,
    random_multicasts,
)

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


def test_what_has_not_come_yet_gets_its_time(broker, made, capsys):
    _, bus, config = made
    late = Record(b"p0", b"late", [("to", b"p1")], 0, bus.begin_ms)
    produce(broker.bootstrap, f"{bus.topics.at}in", [late])
    began = time.monotonic()
    assert not report_on(config, ["bus"], wait=3)
    assert time.monotonic() - began > 3
    told = capsys.readouterr().out
    assert "unfinished: 1" in told
    assert "1 held" in told
