"""A pipeline of multicasts by clocks or a counter at work, and what is judged of its topics."""

import json

from streaming.disciplines.multicast.plan import MulticastPlan
from streaming.disciplines.multicast.protocol.core import MulticastOperator
from streaming.disciplines.multicast.protocol.route import route
from streaming.verify.accounts import Material, Settings
from streaming.verify.multicast import judge
from tests.streaming.exchange_harness import Floor, exchange_plan, given_topics
from tests.streaming.verify.multicast_worlds import Multicasts
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


def world_of(order="clock"):
    return Multicasts(1, order=order)
