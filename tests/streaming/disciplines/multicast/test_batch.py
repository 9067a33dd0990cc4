"""Multicast in the order of the batch: random histories against one record at a time."""

import json

import pytest

from streaming.arrow.key_text import key_from_json
from streaming.disciplines.multicast.batch import core, slices
from streaming.disciplines.multicast.batch.describe import describe
from tests.seeds import seeds
from tests.streaming.disciplines.multicast.batched_stages import (
    assert_same,
    by_key,
    plain,
    run_both,
    stage_for,
)
from tests.streaming.disciplines.multicast.histories import history
from tests.streaming.verify.worlds import Topics


@pytest.mark.parametrize("seed", seeds(10, 20))
def test_random_histories_are_those_of_one_record_at_a_time(seed):
    stage, model = run_both(seed, whole=seed % 10 == 9, shards=1 + seed % 5)
    assert_same(stage, model)


def test_the_histories_have_something_of_everything():
    models = [run_both(seed)[1] for seed in (3, 4)]
    rejects = [headers for model in models for _, _, headers, _ in model.rejects]
    reasons = {dict(headers)["reject-reason"] for headers in rejects}
    assert reasons == {b"missing-sender", b"bad-destination", b"destroyed-node"}
    told = {each["event"] for model in models for each in model.events}
    assert told == {"command-done", "command-refused", "undelivered"}
    out = [headers for model in models for _, _, headers, _ in model.out]
    assert {"notice", "handles", "handles-invalid"} <= {name for some in out for name, _ in some}


@pytest.mark.parametrize("seed", range(100, 104))
def test_peers_retire_and_let_go(seed):
    stage, model = run_both(seed, wait_ms=500, retire_after_ms=900, shards=1 + seed % 3)
    assert_same(stage, model)
    assert any(each["event"] == "retired" for each in model.events)


def test_a_peer_had_part_until_its_node_ended():
    topics = Topics()
    stage = stage_for(topics, 1, shards=1, retire_after_ms=100)

    def batch_after(wait_ms, *commands):
        for command in commands:
            topics.put("commands", 0, 1, None, json.dumps(command).encode())
        topics.put("in", 0, 1, b"eve", b"", [("to", b"bob")])
        stage.batch(whole=True, wait_ms=wait_ms)

    nodes = [("n", "ann"), ("m", "eve")]
    made = [{"op": "create-node", "node": node, "owner": owner} for node, owner in nodes]
    topics.put("in", 0, 1, b"eve", b"", [("to", b"ann"), ("handles", b"@m")])
    batch_after(0, *made)
    batch_after(95, {"op": "destroy-node", "node": "n"})
    batch_after(10, {"op": "destroy-node", "node": "m"})
    got = [dict(record.headers) for record in topics.all("out") if record.key == b"ann"]
    assert [(each["sequence"], each.get("notice")) for each in got] == [(b"0", None), (b"1", b"m")]


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_the_order_does_not_depend_on_shards_or_slices(seed, monkeypatch):
    found = []
    for shards in (1, 2, 3, 5):
        for module in (core, slices):
            monkeypatch.setattr(module, "SLICE_MAX", [500_000, 3, 1, 7][shards % 4])
        stage = run_both(seed, whole=True, shards=shards)[0]
        found.append(sorted(map(str, by_key(plain(stage.topics.all("out"))).items())))
    assert found[1:] == found[:-1]


@pytest.mark.parametrize("seed", seeds(1, 6))
def test_any_split_of_the_records_gives_the_same(seed):
    """Batches at one time, in which commands keep their place among the records."""
    found = []
    for cut in (1, 4, 1000):
        topics = history(seed)
        stage = stage_for(topics, seed)
        rows = [r for place in sorted(topics.records) for r in topics.records[place]]
        commands = [r for r in rows if r.topic == "commands"]
        records = [r for r in rows if r.topic == "in"]
        stage.take(commands[: len(commands) // 2])
        for part in (records[:60], records[60:]):
            for first in range(0, len(part), cut):
                stage.take(part[first : first + cut])
            stage.take(commands[len(commands) // 2 :] if part is not records[60:] else [])
        found.append(by_key(plain(topics.all("out"))))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("seed", range(3))
def test_what_is_told_of_peers(seed):
    stage, model = run_both(seed, shards=3)
    told = {key_from_json(each["peer"]): each for core in stage.cores() for each in describe(core)}
    assert told.keys() == model.peers.keys()
    for name, each in told.items():
        count = model.peers[name]
        assert (each["sequence"], each["incarnation"]) == (count.sequence, count.incarnation)
        held = [n.decode() for n, node in model.nodes.items() if name in node.holders]
        assert each["handles"] == sorted(held)
        mine = [
            n.decode() for n, o in model.nodes.items() if o.owner == name and o.destroyed_ms is None
        ]
        assert each["nodes"] == sorted(mine)


def test_limits_of_one_message():
    topics = Topics()
    many = b",".join(b"p%d" % n for n in range(10_001))
    value = {"op": "create-node", "node": "n", "owner": "p1"}
    topics.put("commands", 0, 1, None, json.dumps(value).encode())
    topics.put("in", 0, 1, b"s", b"many", [("to", many)])
    topics.put("in", 0, 1, b"s", b"long", [("to", b"p" * 10_001)])
    topics.put("in", 0, 1, b"s", b"fits", [("to", many[: many.rindex(b",")])])
    passed = b",".join(b"@%d" % n for n in range(1001))
    topics.put("in", 0, 1, b"s", b"passed", [("to", b"a"), ("handles", passed)])
    topics.put("in", 0, 1, b"s", b"once", [("to", b"a"), ("handles", b"@n," * 1001 + b"@n")])
    stage = stage_for(topics, 1)
    stage.run(whole=True)
    assert len(topics.all("out")) == 10_001
    reasons = {each.value: dict(each.headers)["reject-reason"] for each in topics.all("rejects")}
    wanted = {b"many": b"too-many-destinations", b"long": b"bad-destination"}
    assert reasons == wanted | {b"passed": b"too-many-handles"}
