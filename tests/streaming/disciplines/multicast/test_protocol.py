"""What a shard does with repeats, commands, limits, idle peers and names of nodes."""

import json

import pyarrow as pa
import pytest

from sequencer.multicast.protocol.nodes import OwnedNodes
from streaming.disciplines.multicast import records
from streaming.disciplines.multicast.protocol.route import route
from streaming.disciplines.state_keys import shard_of_name
from tests.streaming.disciplines.multicast.floors import (
    events,
    floor_for,
    judged,
    plan_for,
    work,
    world_of,
)
from tests.streaming.exchange_harness import run_with_repeats


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_a_repeated_chunk_is_known(order):
    """With delivery = "at-least-once" the transit topic may have repeats."""
    world = world_of(order)
    for n in range(30):
        world.send(b"p%d" % (n % 3), b"a,b,c", ..., b"%d" % n)
    floor = floor_for(world, 1)
    run_with_repeats(floor)
    assert len(floor.topics.all("out")) == 90
    assert floor.totals().transit == 0


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_commands_are_answered_once(order):
    world = world_of(order)
    bad = [
        (b"{", "unreadable"),
        (b"[]", "unreadable"),
        (None, "unreadable"),
        ({"op": "grow", "node": "n"}, "unknown-op"),
        ({"op": "destroy-node", "node": "n", "ownr": "p"}, "unknown-field"),
        ({"op": "create-node", "node": "", "owner": "p"}, "bad-node"),
        ({"op": "create-node", "node": 7, "owner": "p"}, "bad-node"),
        ({"op": "create-node", "node": "@n", "owner": "p"}, "bad-node"),
        ({"op": "create-node", "node": "a,b", "owner": "p"}, "bad-node"),
        ({"op": "create-node", "node": "n" * 250, "owner": "p"}, "bad-node"),
        ({"op": "create-node", "node": "n", "owner": "a,b"}, "bad-owner"),
        ({"op": "create-node", "node": "n"}, "bad-owner"),
        (b'{"op": "create-node", "node": "\\ud800", "owner": "p"}', "bad-node"),
        (b'{"op": "destroy-node", "node": "n", "id": "\\ud800"}', "unknown-node"),
        ({"op": "destroy-node", "node": "n", "id": "i" * 10_001}, "unknown-node"),
        ({"op": "destroy-node", "node": "n"}, "unknown-node"),
        ({"op": "release", "node": "n", "peer": "p"}, "unknown-node"),
        ({"op": "release", "node": "n", "peer": 1}, "bad-peer"),
        ({"op": "release", "node": "n"}, "bad-peer"),
    ]
    for value, _ in bad:
        world.command(value)
    for value in (
        {"op": "create-node", "node": "\u00fc", "owner": "\u00e4", "id": "one"},
        {"op": "create-node", "node": "\u00fc", "owner": "p", "id": "two"},
        {"op": "destroy-node", "node": "\u00fc", "id": "three"},
        {"op": "destroy-node", "node": "\u00fc", "id": "four"},
    ):
        world.command(value)
    floor, verdict = work(world, 1, whole=True)
    assert verdict.good, verdict.faults
    answers = {each["offset"]: each for each in events(floor, "command-")}
    assert len(answers) == len(events(floor, "command-")) == len(bad) + 4
    reasons = [answers[at].get("reason") for at in sorted(answers)]
    more = [None, "node-exists", None, "destroyed-node"]
    assert reasons == [*(reason for _, reason in bad), *more]
    done = answers[sorted(answers)[-2]]
    assert (done["command"], done["from"], done["node"]) == ("three", "\u00e4", "\u00fc")
    assert done["timestamp"] > 0
    assert all("detail" in each for each in answers.values() if "reason" in each)


@pytest.mark.parametrize("order", ["clock", "counter"])
@pytest.mark.parametrize("most", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_limits_of_one_message(order, most, monkeypatch):
    """The real limit, 10,000, in the long form; in the short one in `test_batch.py`."""
    monkeypatch.setattr(records, "DESTINATIONS_MAX", most)
    world = world_of(order)
    many = [b"p%d" % n for n in range(most + 1)]
    world.send(b"s", b",".join(many[:most]), ..., b"fits")
    floor, verdict = work(world, 1)
    assert verdict.good, verdict.faults
    assert len(floor.topics.all("out")) == most
    floor.topics.put("in", 0, 1, b"s", b"many", [("to", b",".join(many))])
    floor.topics.put("in", 0, 1, b"s", b"long", [("to", b"p" * 10_001)])
    floor.run()
    assert len(floor.topics.all("out")) == most
    reasons = [dict(each.headers)["reject-reason"] for each in floor.topics.all("rejects")]
    assert reasons == [b"too-many-destinations", b"bad-destination"]
    assert floor.totals().held == 0


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_an_idle_peer_retires_and_comes_back_with_a_new_incarnation(order):
    world = world_of(order)
    for n in range(3):
        world.send(b"a", b"b,c", ..., b"%d" % n)
    world.command({"op": "create-node", "node": "n", "owner": "d"})
    floor = floor_for(world, 1, shards=2, retire_after_ms=100_000)
    floor.run()
    floor.now_ms += 200_000
    for n in range(3, 6):  # what comes to a shard lets it look for idle peers
        for sender in (b"x", b"y", b"z", b"a"):
            floor.topics.put("in", 0, 1, sender, b"%d" % n, [("to", b"b,c,@n")])
    floor.run()
    assert {e["peer"] for e in events(floor, "retired")} == {"b", "c"}
    verdict = judged(world, floor)
    assert verdict.good, verdict.faults
    of_b = [r for r in floor.topics.all("out") if r.key == b"b"]
    assert len({dict(r.headers)["incarnation"] for r in of_b}) == 2
    sequences = [int(dict(r.headers)["sequence"]) for r in of_b]
    assert sequences == [*range(3), *range(12)]


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_an_idle_peer_with_a_node_is_not_forgotten(order):
    world = world_of(order)
    for node, owner in (("n", "d"), ("h", "e")):
        world.command({"op": "create-node", "node": node, "owner": owner})
    world.send(b"s", b"d", b"@h", b"v")
    floor = floor_for(world, 1, shards=2, retire_after_ms=100_000)
    floor.run()
    floor.now_ms += 200_000
    for sender in (b"x", b"y", b"z", b"a"):
        floor.topics.put("in", 0, 1, sender, b"x", [("to", b"q")])
    floor.topics.put("commands", 0, 1, None, b'{"op": "destroy-node", "node": "h"}')
    floor.run()
    assert events(floor, "retired") == []
    got = [(r.value, dict(r.headers)["sequence"]) for r in floor.topics.all("out") if r.key == b"d"]
    assert got == [(b"v", b"0"), (None, b"1")]


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_a_long_lived_node_does_not_remember_peers_that_are_gone(order):
    """Holders that retire, or release, leave nothing behind with who keeps the node."""
    world = world_of(order)
    world.command({"op": "create-node", "node": "n", "owner": "o"})
    floor = floor_for(world, 1, shards=2, retire_after_ms=100_000)
    floor.run()
    for turn in range(3):
        to = b",".join(b"p%d" % n for n in range(10 * turn, 10 * turn + 10))
        floor.topics.put("in", 0, 1, b"s", b"%d" % turn, [("to", to), ("handles", b"@n")])
        floor.run()
        value = {"op": "release", "node": "n", "peer": f"p{10 * turn}"}
        floor.topics.put("commands", 0, 1, None, json.dumps(value).encode())
        floor.run()
        assert len(holders(floor)) == 9
        floor.now_ms += 200_000
        for sender in (b"x", b"y", b"z", b"a"):
            floor.topics.put("in", 0, 1, sender, b"x", [("to", b"q")])
        floor.run()
        assert holders(floor) == {}
    floor.topics.put("in", 0, 1, b"s", b"last", [("to", b"p0,p1"), ("handles", b"@n")])
    floor.run()
    floor.topics.put("commands", 0, 1, None, b'{"op": "destroy-node", "node": "n"}')
    floor.run()
    told = [r.key for r in floor.topics.all("out") if r.value is None]
    assert sorted(told) == [b"p0", b"p1"]
    verdict = judged(world, floor)
    assert verdict.good, verdict.faults


def holders(floor):
    """Who is noted as holding the only node's handle, and how often."""
    ((_, (found, *_)),) = kept(floor)
    return dict(found)


def nodes_kept(floor):
    return [node for node, _ in kept(floor)]


def kept(floor):
    """What the keepers of nodes know of them."""
    found = []
    for core in floor.cores():
        for name in list(core.peers.texts):
            core.peers.touch(name)
        for party in core.peers.bus.parties.values():
            found += getattr(party, "nodes", OwnedNodes("")).state()
    return found


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_a_name_of_a_node_is_free_again_after_a_while(order):
    world = world_of(order)
    floor = floor_for(world, 1, shards=3, retire_after_ms=1000)

    def do(op, value, wait_ms=10):
        command = {"op": op, "node": "n", "owner": "o" if value else "a"}
        floor.topics.put("commands", 0, 1, None, json.dumps(command).encode())
        floor.run()
        floor.now_ms += wait_ms

    do("create-node", 0)
    do("destroy-node", 0)
    do("create-node", 0, wait_ms=2000)
    floor.topics.put("in", 0, 1, b"s", b"v", [("to", b"@n")])
    floor.run()
    do("create-node", 1)
    floor.topics.put("in", 0, 1, b"s", b"w", [("to", b"@n")])
    floor.run()
    kinds = [e["event"] for e in events(floor, "command-")]
    assert kinds.count("command-done") == 3
    (reject,) = floor.topics.all("rejects")
    assert dict(reject.headers)["reject-reason"] == b"bad-destination"
    (out,) = floor.topics.all("out")
    assert (out.key, out.value) == (b"o", b"w")


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_what_waits_is_not_for_a_later_node_of_the_name(order, monkeypatch):
    monkeypatch.setattr("streaming.disciplines.multicast.protocol.core.IN_FLIGHT_MAX", 1)
    world = world_of(order)
    floor = floor_for(world, 1, shards=3, retire_after_ms=1000)

    def do(op, owner):
        command = {"op": op, "node": "n", "owner": owner}
        floor.topics.put("commands", 0, 1, None, json.dumps(command).encode())
        floor.batch(whole=True)

    def send(value, to, handles=b""):
        floor.topics.put("in", 0, 1, b"s", value, [("to", to), ("handles", handles)])

    do("create-node", "a")
    send(b"first", b"b,c,d,e")
    send(b"to a", b"@n")
    send(b"with the handle", b"b", b"@n")
    do("destroy-node", "a")
    floor.now_ms += 2000
    do("create-node", "o")
    send(b"to o", b"@n", b"@n")
    floor.run()
    got = {(each.key, each.value) for each in floor.topics.all("out")}
    assert got == {(b"o", b"to o"), *((name, b"first") for name in (b"b", b"c", b"d", b"e"))}
    reasons = {r.value: dict(r.headers)["reject-reason"] for r in floor.topics.all("rejects")}
    assert reasons == dict.fromkeys((b"to a", b"with the handle"), b"bad-destination")


@pytest.mark.parametrize("order", ["clock", "counter"])
@pytest.mark.parametrize("batches", [1, 2, 4])
def test_a_stop_during_a_destruction_may_be_longer_than_the_node_is_remembered(order, batches):
    world = world_of(order)
    floor = floor_for(world, 1, shards=3, retire_after_ms=1000)

    def do(op, node):
        command = {"op": op, "node": node, "owner": "o"}
        floor.topics.put("commands", 0, 1, None, json.dumps(command).encode())

    do("create-node", "n")
    floor.topics.put("in", 0, 1, b"s", b"v", [("to", b"a,b,c"), ("handles", b"@n")])
    floor.run()
    do("destroy-node", "n")
    for _ in range(batches):
        floor.batch(whole=True)
    floor.now_ms += 2000
    do("create-node", "m")
    floor.run()
    assert len(events(floor, "command-done")) == 3
    assert nodes_kept(floor) == ["1:m"]
    verdict = judged(world, floor)
    assert verdict.good, verdict.faults


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_a_sender_that_retires_while_its_message_waits_in_a_queue_can_send_again(order):
    """By the counter a copy is known by its sender and number: these must not come twice."""
    world = world_of(order)
    shards, home = 3, shard_of_name(b"", 3)  # the counter's shard
    names = [b"p%d" % n for n in range(20)]
    here, there = (
        [n for n in names if (shard_of_name(n, shards) == home) is is_here]
        for is_here in (True, False)
    )
    floor = floor_for(world, 1, shards=shards, retire_after_ms=1000)
    floor.topics.put("in", 0, 1, there[0], b"slow", [("to", b",".join((here[0], there[1])))])
    for _ in range(3):
        floor.batch(whole=True)
    for value in (b"one", b"two"):
        floor.topics.put("in", 0, 1, here[1], value, [("to", here[0])])
        floor.batch(whole=True)
        floor.now_ms += 2000
    floor.run()
    got = [each.value for each in floor.topics.all("out") if each.key == here[0]]
    assert sorted(got) == [b"one", b"slow", b"two"]
    verdict = judged(world, floor)
    assert verdict.good, verdict.faults


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_shards_know_the_same_nodes_after_the_clock_was_set_back(order):
    """A shard's clock never falls, so it may differ from those of shards that got nothing."""
    world = world_of(order)
    floor = floor_for(world, 1, shards=3, retire_after_ms=10_000)
    senders = [b"s%d" % n for n in range(12)]

    def do(op, node):
        command = {"op": op, "node": node, "owner": "o"}
        floor.topics.put("commands", 0, 1, None, json.dumps(command).encode())
        floor.run()

    do("create-node", "n")
    do("destroy-node", "n")
    floor.now_ms += 11_000
    floor.topics.put("in", 0, 1, senders[0], b"v", [("to", senders[0])])
    floor.run()
    floor.now_ms -= 2_000
    do("create-node", "n")
    do("create-node", "m")
    assert len({core.nodes.dump() for core in floor.cores()}) == 1
    for sender in senders:
        floor.topics.put("in", 0, 1, sender, b"v", [("to", b"@m")])
    floor.run()
    assert floor.topics.all("rejects") == []


def test_every_record_goes_to_its_senders_shard():
    table = pa.table({"key": pa.array([b"a", None, b"", b"b", b"a"], pa.binary())})
    plan = plan_for("clock", shards=4)
    assert route(plan)(table).tolist() == [
        shard_of_name(k, 4) for k in (b"a", b"", b"", b"b", b"a")
    ]
    assert route(plan)(table.slice(0, 0)).tolist() == []
