"""What may be followed from topics alone: origins, progress marks, on a broker and Spark."""

import json
import time
from dataclasses import replace

import pytest

from streaming import OrderedConsumer
from streaming.errors import ConfigError
from tests.kafka_helpers import Record, create_topics, produce, read_all, wait_for_records
from tests.service_helpers import (
    WarmService,
    called,
    called_json,
    channel_topics,
    run_once,
    verify,
    write_config,
)


def labelled(key, label):
    return Record(key, b"%s-%d" % (key, label), [("label", b"%d" % label)])


OUT = Record(b"a", b"", [("sequence", b"0"), ("incarnation", b"5")])


def marks_of(bootstrap, topic):
    """The last mark of each output partition."""
    return {int(r.key): json.loads(r.value) for r in read_all(bootstrap, topic)}


def settled(bootstrap, topic, inputs):
    """The marks, when they tell of all these inputs: they are written by the way."""
    deadline = time.monotonic() + 120
    while True:
        found = marks_of(bootstrap, topic)
        if found and all(each["inputs"] == inputs for each in found.values()):
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.2)


@pytest.fixture(scope="module")
def followed(broker, tmp_path_factory):
    """A pipeline that has worked through records of which one is held, and one was rejected."""
    prefix = f"followed-{tmp_path_factory.mktemp('f').name}."
    topics = channel_topics(prefix)
    table = {**topics, "origin": True, "progress": f"{prefix}progress"}
    other = {**channel_topics(f"{prefix}q."), "input": topics["input"]}
    tables = {"p": table, "q": other}
    config = write_config(tmp_path_factory.mktemp("service"), broker.bootstrap, tables)
    create_topics(broker.bootstrap, {topics["input"]: 1})
    first = [labelled(b"a", n) for n in (1, 0, 3)]
    produce(broker.bootstrap, topics["input"], [*first, labelled(b"b", 0), labelled(b"b", 0)])
    run_once(config)
    return broker.bootstrap, prefix, config


def reader_of(bootstrap, prefix, group, **more):
    settings = {"bootstrap.servers": bootstrap}
    progress = {f"{prefix}out": f"{prefix}progress"}
    return OrderedConsumer(settings, [f"{prefix}out"], group=group, progress=progress, **more)


def read_until(reader, times):
    """Poll until the reader is complete so far; all that it gave."""
    found = []
    for _ in range(120):
        delivery = reader.poll(0.5)
        found += [delivery] if delivery else []
        if delivery is None and reader.complete_until() in times:
            return found
    raise AssertionError((found, reader.complete_until()))


def test_marks_and_origins_through_a_gap_and_a_restart(followed):
    bootstrap, prefix, config = followed
    sent = read_all(bootstrap, f"{prefix}in")
    out = read_all(bootstrap, f"{prefix}out")
    places = {r.header("origin"): r.value for r in out}
    assert places == {f"{prefix}in/0@{n}".encode(): sent[n].value for n in (0, 1, 3)}
    held, newest = sent[2].timestamp, sent[4].timestamp
    found = settled(bootstrap, f"{prefix}progress", {f"{prefix}in": {"0": 5}})
    (home,) = {r.partition for r in out if r.key == b"a"}
    for partition, each in found.items():
        assert each["inputs"] == {f"{prefix}in": {"0": 5}}
        assert each["read_until_ms"] == each["caught_up_ms"] == max(r.timestamp for r in sent)
        assert each["oldest_held_ms"] == (held if partition == home else None)
    with reader_of(bootstrap, prefix, "r") as reader:
        given = read_until(reader, {min(held, newest)})
        assert sorted(d.value for d in given) == sorted(places.values())
        assert {d.origin.encode(): d.value for d in given} == places
        assert all(name != "origin" for d in given for name, _ in d.headers)
        reader.commit()
        produce(bootstrap, f"{prefix}in", [labelled(b"a", 2)])
        with WarmService(config) as service:
            last = read_all(bootstrap, f"{prefix}in")[-1].timestamp
            given = read_until(reader, {last})
            assert [d.value for d in given] == [b"a-2", b"a-3"]
            # The other pipeline reads by itself: it may be a batch behind this one.
            wait_for_records(bootstrap, f"{prefix}q.out", 5)
            assert service.stop() == 0
    code, said = verify(config)
    assert code == 0, said
    code, said, error = called("topics", config)
    assert code == 0, (said, error)


def why(place, config, *more):
    return called_json("why", place, config, *more)


def test_why(followed):
    """After the test above: label 3 had waited for label 2."""
    _, prefix, config = followed
    life = why(f"{prefix}in/0@2", config)
    by_header, by_bytes = life["pipelines"]
    assert [each["state"] for each in life["pipelines"]] == ["delivered"] * 2
    assert by_header["waited"]["until"] == f"{prefix}in/0@5"
    for each in (by_header, by_bytes):
        assert each["waited"]["for"]["label"] == "2"
        assert each["waited"]["since_ms"] == life["record"]["timestamp_ms"]
        assert [d["sequence"] for d in each["deliveries"]] == ["3"]
    assert {span["topic"] for span in life["looked_at"]} >= {f"{prefix}out", f"{prefix}q.out"}
    for of, found_by in ((by_header, "origin"), (by_bytes, "content")):
        back = why(of["deliveries"][0]["place"], config)
        assert (back["found_by"], back["input"]["place"]) == (found_by, f"{prefix}in/0@2")


@pytest.fixture(scope="module", params=[False, True], ids=["content", "origin"])
def published(request, broker, tmp_path_factory):
    """A pipeline of groups and one of multicasts that have worked through their messages."""
    prefix = f"published-{tmp_path_factory.mktemp('f').name}."
    group, multicast = channel_topics(f"{prefix}g."), channel_topics(f"{prefix}m.")
    group |= {"discipline": "group", "groups": {"G": ["ann", "bob"]}, "origin": request.param}
    multicast |= {"discipline": "multicast", "origin": request.param}
    multicast["input_commands"] = ["create-node", "destroy-node"]
    config = write_config(
        tmp_path_factory.mktemp("service"), broker.bootstrap, {"g": group, "m": multicast}
    )
    create_topics(broker.bootstrap, {group["input"]: 1, multicast["input"]: 1})
    to_group = [
        Record(b"eve", b"one", [("group", b"G")]),
        Record(b"may", b"one", [("group", b"G")]),
        Record(b"eve", b"nobody", [("group", b"X")]),
    ]
    node = b'{"node": "n", "owner": "eve"}'
    to_peers = [
        Record(b"eve", node, [("op", b"create-node")]),
        Record(b"eve", b'{"node": "n"}', [("op", b"destroy-node")]),
        Record(b"may", b"two", [("to", b"ann,@n,bob")]),
        Record(b"may", b"none", [("to", b"@n")]),
    ]
    at_ms = int(time.time() * 1000)
    for topic, records in ((group["input"], to_group), (multicast["input"], to_peers)):
        dated = [replace(record, timestamp=at_ms) for record in records]
        produce(broker.bootstrap, topic, dated)
    run_once(config)
    return prefix, config, "origin" if request.param else "content"


def test_why_of_groups(published):
    prefix, config, found_by = published
    for offset, sequence in ((0, "0"), (1, "1")):  # equal but for their senders
        life = why(f"{prefix}g.in/0@{offset}", config)
        (one,) = life["pipelines"]
        assert one["state"] == "delivered"
        assert {each["key"] for each in one["deliveries"]} == {"ann", "bob"}
        assert {each["sequence"] for each in one["deliveries"]} == {sequence}
        assert {each["group-sequence"] for each in one["deliveries"]} == {sequence}
        assert f"{prefix}g.out" in {span["topic"] for span in life["looked_at"]}
        for each in one["deliveries"]:
            back = why(each["place"], config)
            assert back["input"]["place"] == f"{prefix}g.in/0@{offset}"
            assert back["found_by"] == found_by
    (lost,) = why(f"{prefix}g.in/0@2", config)["pipelines"]
    assert (lost["state"], lost["reject"]["reject-reason"]) == ("rejected", "unknown-group")
    back = why(lost["reject"]["place"], config)
    assert (back["found_by"], back["input"]["place"]) == ("reject headers", f"{prefix}g.in/0@2")


def test_why_of_multicasts(published):
    prefix, config, found_by = published
    (one,) = why(f"{prefix}m.in/0@2", config)["pipelines"]
    assert one["state"] == "delivered"
    assert {each["key"] for each in one["deliveries"]} == {"ann", "bob"}
    (event,) = one["events"]
    assert (event["event"], event["destination"]) == ("undelivered", "@n")
    back = why(one["deliveries"][0]["place"], config)
    assert (back["found_by"], back["input"]["place"]) == (found_by, f"{prefix}m.in/0@2")
    (lost,) = why(f"{prefix}m.in/0@3", config)["pipelines"]
    assert (lost["state"], lost["reject"]["reject-reason"]) == ("rejected", "destroyed-node")
    status, said, _ = called("why", f"{prefix}m.in/0@2", config)
    assert status == 0
    assert "  m: delivered\n" in said
    assert f"looked at {prefix}m.out/" in said


def test_without_marks_a_reader_says_so(broker, topic_prefix):
    create_topics(broker.bootstrap, {f"{topic_prefix}out": 1})
    produce(broker.bootstrap, f"{topic_prefix}out", [OUT])
    with reader_of(broker.bootstrap, topic_prefix, "r") as reader:
        assert reader.poll(60) is not None
        with pytest.raises(ConfigError, match="progress = true"):
            reader.complete_until()
