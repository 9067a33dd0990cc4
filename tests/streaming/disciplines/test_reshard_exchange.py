"""Shards that send each other messages, moved at rest: nobody can tell from what comes out."""

import json
import random
from dataclasses import replace

import pytest

from streaming.arrow.totals import OVERLAPS_MAX
from streaming.disciplines.exchange import ExchangeOperator
from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.describe import describe as subscribers
from streaming.disciplines.groups.network.reshard import reshard as reshard_network
from streaming.disciplines.groups.network.route import first_ingress
from streaming.disciplines.groups.network.route import route as network_route
from streaming.disciplines.multicast.protocol.core import MulticastOperator
from streaming.disciplines.multicast.protocol.describe import describe as peers
from streaming.disciplines.multicast.protocol.reshard import reshard as reshard_multicast
from streaming.disciplines.multicast.protocol.route import route as multicast_route
from streaming.verify.accounts import Material
from streaming.verify.group import GroupSettings
from streaming.verify.group import judge as judge_groups
from tests.seeds import seeds
from tests.streaming.disciplines.groups.networks import plan_for as network_plan
from tests.streaming.disciplines.multicast import floors
from tests.streaming.exchange_harness import Floor, given_topics
from tests.streaming.verify.group_worlds import Groups, random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts
from tests.streaming.verify.worlds import Topics, settings_for

SIZES = ((1, 1), (4, 4), (3, 2), (5, 5), (4, 3))
"""Shards and state partitions."""


def network(seed):
    world = random_groups(seed, commands=0.1, steps=80)
    plan = network_plan(world.configured, output="out", nodes=3, shards=4)
    floor = Floor(plan, NetworkOperator(plan), network_route(plan), given_topics(world), seed)
    return world, floor


def multicast(order):
    def made(seed):
        world = random_multicasts(seed, steps=40, order=order)
        return world, floors.floor_for(world, seed, shards=4)

    return made


KINDS = {"network": network, "clock": multicast("clock"), "counter": multicast("counter")}


def judged(kind, world, floor):
    if kind != "network":
        return floors.judged(world, floor)
    own = ("out", "rejects", "events", "commands", "in")
    settings = settings_for(GroupSettings, world, groups=world.configured)
    return judge_groups(settings, Material(*map(floor.topics.all, own)))


def move(kind, floor, shards, partitions):
    """All state to so many shards, as `rescale` does it."""
    after = replace(floor.plan, shards=shards, state_partitions=partitions)
    if kind == "network":
        after = replace(after, ingress={})
        after = replace(after, ingress=first_ingress(after))
        reshard, operator, route = reshard_network, NetworkOperator, network_route
    else:
        reshard, operator, route = reshard_multicast, MulticastOperator, multicast_route
    moved = reshard(floor.plan, after, sorted(floor.states.items()))
    floor.plan, floor.operator, floor.route = after, operator(after), route(after)
    floor.states = dict(moved.rows)
    ExchangeOperator.cores.clear()


def told(kind, floor):
    describe = subscribers if kind == "network" else peers
    found = [each for core in floor.cores() for each in describe(core)]
    return sorted(found, key=lambda each: json.dumps(each, sort_keys=True))


def counts(floor):
    return replace(floor.totals(), batches=0, oldest_ms=None)


def work(kind, seed):
    """Piece by piece, each to its end, with moves in between."""
    rng = random.Random(seed)
    world, floor = KINDS[kind](seed)
    given = {place: list(there) for place, there in floor.topics.records.items()}
    for place in given:
        floor.topics.records[place] = []
    for piece in range(1, 5):
        for place, there in given.items():
            floor.topics.records[place] = there[: len(there) * piece // 4]
        floor.run()
        before = told(kind, floor), counts(floor)
        move(kind, floor, *rng.choice(SIZES))
        assert (told(kind, floor), counts(floor)) == before
    return world, floor


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(1, 40))
def test_moved_at_rest_all_goes_on(kind, seed):
    world, floor = work(kind, seed)
    verdict = judged(kind, world, floor)
    assert verdict.good, verdict.faults[:3]
    totals = floor.totals()
    assert totals.held == totals.transit == totals.blocked == 0
    assert totals.seen == len(floor.topics.all("in"))


@pytest.mark.parametrize("kind", KINDS)
def test_moved_before_the_first_record_all_begins(kind):
    world, floor = KINDS[kind](1)
    move(kind, floor, 5, 5)
    floor.run()
    verdict = judged(kind, world, floor)
    assert verdict.good, verdict.faults[:3]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_moved_while_messages_are_on_their_way(kind):
    _, floor = KINDS[kind](1)
    while floor.left() and not floor.totals().transit:
        floor.batch()
    assert floor.left()
    states = dict(floor.states)
    with pytest.raises(ValueError, match="messages are on their way between its shards"):
        move(kind, floor, 5, 5)
    assert floor.states == states
    move(kind, floor, 4, 3)  # as many shards in other state partitions can always be


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_a_clock_that_went_back_keeps_no_multicasts_where_they_are(order):
    """When a node was destroyed is by each shard's own clock, which never goes back."""
    plan = floors.plan_for(order, shards=2)
    floor = Floor(plan, MulticastOperator(plan), multicast_route(plan), Topics(), 1)

    def command(**given):
        floor.topics.put("commands", 0, 1000, None, json.dumps(given).encode())
        floor.run(whole=True)

    command(op="create-node", node="n", owner="p", id="1")
    floor.now_ms += 10_000
    floor.topics.put("in", 0, 1000, b"p", b"v", [("to", b"p")])  # one shard has this time
    floor.run(whole=True)
    floor.now_ms -= 10_000
    command(op="destroy-node", node="n", id="2")
    move(order, floor, 3, 3)


def test_a_network_with_more_overlaps_than_are_listed_moves():
    """Which of them are listed depends on their names, and not on who hosts them."""
    world = Groups(1, {f"G{n:02}": ["ann", "bob"] for n in range(13)})
    for n in range(10):
        world.do({"op": "add", "group": f"A{n}", "members": ["cid", "dan"], "id": f"c{n}"})
    for n in range(46):
        world.send(b"p", b"G%02d" % (n % 13) if n % 2 else b"A%d" % (n % 10), b"%d" % n)
    plan = network_plan(world.configured, output="out", nodes=3, shards=4)
    floor = Floor(plan, NetworkOperator(plan), network_route(plan), given_topics(world), 1)
    floor.run()
    assert len(floor.totals().overlaps) == OVERLAPS_MAX < (13 * 12 + 10 * 9) / 2
    before = told("network", floor), counts(floor)
    for shards in (7, 1):
        move("network", floor, shards, shards)
        assert (told("network", floor), counts(floor)) == before
