"""Multicast on shards: random histories in random batches, judged from what is written."""

import json
import random

import pytest

from streaming.multicast_operator import MulticastOperator, route
from streaming.plan import MulticastPlan
from streaming.verify.accounts import Material, Settings
from streaming.verify.multicast import judge
from tests.streaming.exchange_harness import PARTITIONS, Floor, given_topics
from tests.streaming.verify.worlds import random_multicasts, settings_for


def plan_for(order, *, shards=5, **more):
    roles = {"output": "out", "rejects": "rejects", "events": "events"}
    return MulticastPlan(
        service="s",
        pipeline="p",
        inputs=("in",),
        partitions=dict.fromkeys([*roles.values(), "transit"], PARTITIONS),
        shards=shards,
        commands="commands",
        transit="transit",
        order=order,
        **roles,
        **more,
    )


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
@pytest.mark.parametrize("seed", range(20))
def test_random_histories_in_random_batches(seed, order):
    rng = random.Random(seed)
    world = random_multicasts(seed, order=order, commands=rng.choice([0, 0.1, 0.3]))
    floor, verdict = work(world, seed, shards=1 + seed % 7, whole=seed % 10 == 9)
    assert verdict.good, verdict.faults[:3]
    totals = floor.totals()
    assert totals.seen == len(floor.topics.all("in"))
    assert totals.delivered == len(floor.topics.all("out"))
    assert totals.undelivered == len(events(floor, "undelivered"))
    assert totals.held == totals.blocked == totals.transit == 0
    assert sum(totals.rejected.values()) == len(floor.topics.all("rejects"))
