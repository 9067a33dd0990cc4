"""Multicast on shards: random histories in random batches, judged from what is written."""

import json
import random
from collections import Counter

import pyarrow as pa
import pytest

from sequencer.multicast.nodes import OwnedNodes
from streaming.arrow import payload
from streaming.disciplines.exchange import home
from streaming.disciplines.multicast import operator, records
from streaming.disciplines.multicast.describe import of_protocol as describe
from streaming.disciplines.multicast.nodes import shown
from streaming.disciplines.multicast.operator import MulticastCore, MulticastOperator
from streaming.disciplines.multicast.plan import MulticastPlan
from streaming.disciplines.multicast.route import route
from streaming.verify.accounts import Material, Settings
from streaming.verify.multicast import judge
from tests.seeds import seeds
from tests.sequencer.checking import ablations
from tests.streaming.exchange_harness import Floor, exchange_plan, given_topics
from tests.streaming.in_memory import PARTITIONS
from tests.streaming.verify.multicast_worlds import Multicasts, random_multicasts
from tests.streaming.verify.worlds import settings_for


def plan_for(order, **more):
    return exchange_plan(MulticastPlan, order=order, **more)


def floor_for(world, seed, **options):
    plan = plan_for(world.order, **options)
    return Floor(plan, MulticastOperator(plan), route(plan), given_topics(world), seed)


def judged(world, floor):
    own = ("out", "rejects", "events", "commands", "in")
    return judge(settings_for(Settings, world), Material(*map(floor.topics.all, own)))


def work(world, seed, *, whole=False, **options):
    """The pipeline works through the world's inputs and commands; its floor and the verdict."""
    floor = floor_for(world, seed, **options)
    floor.run(whole=whole)
    return floor, judged(world, floor)


def events(floor, kind=""):
    found = [json.loads(record.value) for record in floor.topics.all("events")]
    return [each for each in found if each["event"].startswith(kind)]


@pytest.mark.parametrize("order", ["clock", "counter"])
@pytest.mark.parametrize("seed", seeds(10, 20, 1116))  # 1116: a destruction asks for copies again
def test_random_histories_in_random_batches(seed, order):
    rng = random.Random(seed)
    world = random_multicasts(seed, order=order, commands=rng.choice([0, 0.1, 0.3]))
    floor, verdict = work(world, seed, shards=1 + seed % 7, whole=seed % 10 == 9)
    assert verdict.good, verdict.faults[:3]
    totals = floor.totals()
    assert totals.seen == len(floor.topics.all("in"))
    assert totals.delivered + totals.notices == len(floor.topics.all("out"))
    assert totals.undelivered == len(events(floor, "undelivered"))
    assert totals.held == totals.blocked == totals.transit == 0
    assert sum(totals.rejected.values()) == len(floor.topics.all("rejects"))


@pytest.mark.parametrize("order", ["clock", "counter"])
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_what_is_told_of_peers_in_between(seed, order):
    world = random_multicasts(seed, order=order, commands=0.2)
    floor = floor_for(world, seed, shards=2 + seed % 3)
    busy = 0
    while floor.left():
        floor.batch()
        told = [each for core in floor.cores() for each in describe(core)]
        got = Counter(shown(record.key.decode("latin-1")) for record in floor.topics.all("out"))
        assert {each["peer"]: each["sequence"] for each in told if each["sequence"]} == got
        busy += sum(each["held"] + each["sending"] for each in told)
    assert busy, "something was on its way at some time"
    assert not any(each["held"] or each["sending"] for c in floor.cores() for each in describe(c))
    told = [each for core in floor.cores() for each in describe(core)]
    there = [node for each in told for node in each["nodes"]]
    done = events(floor, "command-done")
    ended = [each["node"] for each in done if each["op"] == "destroy-node"]
    made = [each["node"] for each in done if each["op"] == "create-node"]
    assert Counter(there) == Counter(made) - Counter(ended)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_random_histories(block):
    for seed in range(1000 + 30 * block, 1030 + 30 * block):
        for order in ("clock", "counter"):
            test_random_histories_in_random_batches(seed, order)


@pytest.mark.parametrize("order", ["clock", "counter"])
@pytest.mark.parametrize("seed", seeds(2, 6))
def test_what_may_not_start_yet_waits_in_order(seed, order, monkeypatch):
    monkeypatch.setattr(operator, "IN_FLIGHT_MAX", 1 + seed % 4)
    monkeypatch.setattr(operator, "READ_MAX", 2)
    monkeypatch.setattr(payload, "CHUNK_BYTES_MAX", 300)
    test_random_histories_in_random_batches(seed, order)


def reacting(floor, rng, causes, *, steps=70, count=50):
    """Any peer sends when anybody has read something: the effect of what was read.

    Nothing tells the service; the places of cause and effect are noted. Effects often go to one
    peer that gets the cause, too, which some of the peers hear little.
    """
    sent, known = {}, set()
    for step in range(steps):
        read = {record.value for record in floor.topics.all("out")}
        fresh, known = sorted(read - known), read
        some = [None, *rng.sample(fresh, min(len(fresh), 3))]
        for cause in some if step < count else ():
            sender, value = rng.choice(PEERS), b"%d-%d" % (step, len(sent))
            to = rng.sample(PEERS[:3] if rng.random() < 0.5 else PEERS, rng.randrange(1, 4))
            if cause is not None and rng.random() < 0.7:
                to = [rng.choice(sent[cause][1])]
            partition = PEERS.index(sender) % PARTITIONS
            record = floor.topics.put("in", partition, 1, sender, value, [("to", b",".join(to))])
            sent[value] = (record.place, to)
            if cause is not None:
                causes.append((sent[cause][0], record.place))
        if floor.left():
            floor.batch()
    floor.run()


PEERS = [b"p%d" % n for n in range(9)]


def live(order, seed, bus_type=None):
    """The verdict on a run in which peers react to each other by side channels."""
    world = Multicasts(seed, order=order)
    plan = plan_for(order, shards=4)

    class Operator(MulticastOperator):
        def core(self, shard):
            return MulticastCore(plan, shard, bus_type)

    floor = Floor(plan, Operator(plan), route(plan), given_topics(world), seed)
    causes = []
    reacting(floor, random.Random(seed), causes)
    own = ("out", "rejects", "events", "commands", "in")
    return judge(settings_for(Settings, world), Material(*map(floor.topics.all, own)), causes)


@pytest.mark.parametrize("order", ["clock", "counter"])
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_causes_come_first_also_by_side_channels(seed, order):
    verdict = live(order, seed)
    assert verdict.good, verdict.faults[:3]


@pytest.mark.parametrize(
    ("bus", "seed", "wrong"),
    [
        (
            ablations.clock_bus(queue=ablations.NoBlocks),
            20,
            {"stamp-order", "pairwise-order", "acyclic"},
        ),
        (
            ablations.clock_bus(queue=ablations.LateSync, transaction=ablations.SyncWhenQueueing),
            20,
            {"causality"},
        ),
    ],
)
def test_the_judge_sees_what_a_safeguard_is_for(bus, seed, wrong):
    """Without the block, or without syncing before queueing, this run shows what goes wrong."""
    assert live("clock", seed, bus).counts.keys() >= wrong


def world_of(order="clock"):
    return Multicasts(1, order=order)


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_a_repeated_chunk_is_known(order):
    """With delivery = "at-least-once" the transit topic may have repeats."""
    world = world_of(order)
    for n in range(30):
        world.send(b"p%d" % (n % 3), b"a,b,c", ..., b"%d" % n)
    floor = floor_for(world, 1)
    while floor.left():
        before = {k: len(v) for k, v in floor.topics.records.items() if k[0] == "transit"}
        floor.batch()
        for place, there in floor.topics.records.items():
            if place[0] == "transit":
                for record in there[before.get(place, 0) :]:
                    again = (record.key, record.value, record.headers)
                    floor.topics.put("transit", place[1], record.timestamp, *again)
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
    """The real limit, 10,000, in the long form; in the short one in `test_batched.py`."""
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
    for core in floor.cores():
        for name in list(core.peers.texts):
            core.peers.touch(name)
        for party in core.peers.bus.parties.values():
            for _, (found, *_) in getattr(party, "nodes", OwnedNodes("")).state():
                return dict(found)
    raise AssertionError("nobody keeps the node")


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


def test_every_record_goes_to_its_senders_shard():
    table = pa.table({"key": pa.array([b"a", None, b"", b"b", b"a"], pa.binary())})
    plan = plan_for("clock", shards=4)
    assert route(plan)(table).tolist() == [home(k, 4) for k in (b"a", b"", b"", b"b", b"a")]
    assert route(plan)(table.slice(0, 0)).tolist() == []
