"""The header `origin`: what a delivery names is the record that it was, in every order."""

import random
from dataclasses import replace

import pytest

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.disciplines.channels.codec import decode_shard, encode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.route import first_ingress, route
from streaming.disciplines.groups.plan import NetworkPlan
from streaming.disciplines.multicast.batch.core import BatchOperator
from streaming.disciplines.multicast.plan import BatchMulticastPlan
from streaming.disciplines.multicast.protocol.core import MulticastOperator
from streaming.disciplines.multicast.protocol.route import route as multicast_route
from streaming.disciplines.state_row import StateRow
from streaming.verify.faults import Verdict
from streaming.verify.origins import (
    Origins,
    of_channel,
    of_group,
    of_multicast,
    read_origin,
)
from tests.seeds import seeds
from tests.streaming.broadcast_harness import Stage, broadcast_plan
from tests.streaming.disciplines.channels.plans import pack, plan
from tests.streaming.disciplines.groups.stages import stage_for
from tests.streaming.disciplines.multicast.floors import plan_for as multicast_plan
from tests.streaming.disciplines.multicast.histories import history
from tests.streaming.exchange_harness import Floor, exchange_plan, given_topics
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts
from tests.streaming.verify.worlds import Topics


def groups(seed, *, origin):
    world = random_groups(seed, steps=30, commands=0.1)
    return stage_for(world.configured, given_topics(world), seed, origin=origin), of_group


def network(seed, *, origin):
    world = random_groups(seed, steps=30, commands=0.1)
    members = {name: tuple(sorted(some)) for name, some in world.configured.items()}
    plan = exchange_plan(NetworkPlan, groups=members, nodes=3, origin=origin)
    plan = replace(plan, ingress=first_ingress(plan))
    return Floor(plan, NetworkOperator(plan), route(plan), given_topics(world), seed), of_group


def batched(seed, *, origin):
    plan = broadcast_plan(BatchMulticastPlan, origin=origin)
    return Stage(plan, BatchOperator(plan), history(seed, 30), seed), of_multicast


def given_floor(world, seed, *, origin):
    plan = multicast_plan(world.order, origin=origin)
    return Floor(plan, MulticastOperator(plan), multicast_route(plan), given_topics(world), seed)


def protocol(order):
    def make(seed, *, origin):
        world = random_multicasts(seed, steps=30, order=order, commands=0.2)
        return given_floor(world, seed, origin=origin), of_multicast

    return make


WAYS = {
    "groups": groups,
    "network": network,
    "batch": batched,
    "clock": protocol("clock"),
    "counter": protocol("counter"),
}


def told(way, seed, *, switch=False):
    """The stage when all is done, and what the judge says of its origins.

    ``switch``: deliveries name their records from some batch on.
    """
    stage, naming = WAYS[way](seed, origin=not switch)
    for _ in range(2 if switch else 0):
        stage.batch()
    if switch:
        stage.plan = replace(stage.plan, origin=True)
        stage.operator = type(stage.operator)(stage.plan)
    stage.run()
    return stage, *judged(stage.topics, naming)


def judged(topics, naming):
    origins, verdict = Origins("", naming), Verdict("p")
    bare = list(origins.taken(topics.all("out")))
    assert len(list(origins.held_against(topics.all("in")))) == len(topics.all("in"))
    origins.finish(verdict)
    return bare, verdict


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_deliveries_name_their_records(way, seed):
    stage, bare, verdict = told(way, seed)
    assert verdict.good, verdict.faults
    usual, _ = WAYS[way](seed, origin=False)
    usual.run()
    assert [each.content for each in bare] == [r.content for r in usual.topics.all("out")]
    found = stage.topics.all("out")
    named = [r for r in found if r.headers[-1][0] == "origin"]
    assert named
    assert all(r.has_header("notice") for r in found if r not in named), "but for notices"


@pytest.mark.parametrize("way", ["clock", "counter"])
def test_the_notice_of_a_destruction_names_none(way):
    world = random_multicasts(0, steps=0, order=way)
    world.do({"op": "create-node", "node": "n1", "owner": "p1", "id": "c"})
    floor = given_floor(world, 0, origin=True)
    floor.topics.put("in", 0, 5, b"p1", b"", [("to", b"p2"), ("handles", b"@n1")])
    floor.run()
    end = b'{"op": "destroy-node", "node": "n1"}'
    floor.topics.put("commands", 0, 6, None, end)
    floor.run()
    sent, notice = floor.topics.all("out")
    assert sent.headers[-1][0] == "origin"
    assert notice.has_header("notice")
    assert not notice.has_header("origin")


@pytest.mark.parametrize("way", ["network", "clock", "counter"])
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_it_may_be_switched_on_while_messages_are_on_their_way(way, seed):
    _, _, verdict = told(way, seed, switch=True)
    assert verdict.good, verdict.faults


def channel_outputs(seed):
    """Channels with held records, in batches of their own; inputs and outputs as topics."""
    rng = random.Random(seed)
    p = replace(plan(Rules(LinearLabels())), origin=True)
    topics = Topics(holes=False)
    labels = [(key, n) for key in (b"a", b"b") for n in range(20)]
    rng.shuffle(labels)
    for key, label in labels:
        topics.put("in", rng.randrange(3), 1000, key, b"same", [("label", b"%d" % label)])
    rows = [
        {
            "topic": 0,
            **{name: getattr(r, name) for name in ("partition", "offset", "timestamp")},
            "key": r.key,
            "value": r.value,
            "headers": [{"key": name, "value": value} for name, value in r.headers],
        }
        for r in topics.all("in")
    ]
    rng.shuffle(rows)
    state = StateRow()
    while rows:
        batch, rows = rows[:7], rows[7:]
        shard = decode_shard(state, record_schema(p))
        after, writes = step_shard(shard, pack(batch, p), 2000, p)
        state = encode_shard(after)
        for topic, table in writes:
            for row in table.to_pylist():
                own = [(h["key"], h["value"]) for h in row["headers"] or []]
                own += [
                    (name, str(row[name]).encode())
                    for name in ("sequence", "incarnation", "origin")
                ]
                topics.put(topic, row["partition"], row["timestamp"], row["key"], b"same", own)
    return topics


def test_channels_name_what_they_held():
    topics = channel_outputs(3)
    bare, verdict = judged(topics, of_channel)
    assert verdict.good, verdict.faults
    assert len(bare) == 40
    inputs = {r.place: r.header("label") for r in topics.all("in")}
    for record in topics.all("out"):
        assert inputs[read_origin(record.headers[-1][1])] == record.header("label")


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        (b"in/0@99", "names in/0@99: there is no such input"),
        (b"in/0@", "is not a place"),
        (None, "is not a place"),
        ("other", "both name in/"),
    ],
)
def test_the_judge_finds_a_wrong_one(origin, said):
    topics = channel_outputs(4)
    there = topics.records["out", 0] if ("out", 0) in topics.records else topics.records["out", 1]
    value = there[1].headers[-1][1] if origin == "other" else origin
    there[0] = replace(there[0], headers=(*there[0].headers[:-1], ("origin", value)))
    _, verdict = judged(topics, of_channel)
    assert set(verdict.counts) == {"wrong-origin"}
    assert said in str(verdict.faults)


def test_the_judge_finds_another_message():
    topics = channel_outputs(5)
    one = topics.all("in")[0]
    topics.records["in", one.partition][0] = replace(one, value=b"another")
    _, verdict = judged(topics, of_channel)
    assert verdict.counts == {"wrong-origin": 1}
