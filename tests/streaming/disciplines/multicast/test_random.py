"""Multicast on shards: random histories in random batches, judged from what is written."""

import random
from collections import Counter

import pytest

from streaming.arrow import payload
from streaming.disciplines.multicast.nodes import shown
from streaming.disciplines.multicast.protocol import core
from streaming.disciplines.multicast.protocol.core import MulticastCore, MulticastOperator
from streaming.disciplines.multicast.protocol.describe import describe
from streaming.disciplines.multicast.protocol.route import route
from streaming.verify.accounts import Material, Settings
from streaming.verify.multicast import judge
from tests.seeds import seeds
from tests.sequencer.checking import ablations
from tests.streaming.disciplines.multicast.floors import events, floor_for, plan_for, work
from tests.streaming.exchange_harness import Floor, given_topics
from tests.streaming.in_memory import PARTITIONS
from tests.streaming.verify.multicast_worlds import Multicasts, random_multicasts
from tests.streaming.verify.worlds import settings_for


@pytest.mark.parametrize("order", ["clock", "counter"])
@pytest.mark.parametrize("seed", seeds(6, 20, 1116))  # 1116: a destruction asks for copies again
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
@pytest.mark.parametrize("seed", [1, 2])  # peers on several shards, so that something travels
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
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_what_may_not_start_yet_waits_in_order(seed, order, monkeypatch):
    monkeypatch.setattr(core, "IN_FLIGHT_MAX", 1 + seed % 4)
    monkeypatch.setattr(core, "READ_MAX", 2)
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
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_causes_come_first_also_by_side_channels(seed, order):
    verdict = live(order, seed)
    assert verdict.good, verdict.faults[:3]


@pytest.mark.parametrize(
    ("bus", "seed", "wrong"),
    [
        (
            ablations.clock_bus(queue=ablations.NoBlocks),
            1,
            {"stamp-order", "pairwise-order", "acyclic"},
        ),
        (
            ablations.clock_bus(queue=ablations.LateSync, transaction=ablations.SyncWhenQueueing),
            1,
            {"causality"},
        ),
    ],
)
def test_the_judge_sees_what_a_safeguard_is_for(bus, seed, wrong):
    """Without the block, or without syncing before queueing, this run shows what goes wrong."""
    assert live("clock", seed, bus).counts.keys() >= wrong
