"""A network of groups at work in memory."""

from dataclasses import replace

from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.route import first_ingress, route
from streaming.disciplines.groups.plan import NetworkPlan
from tests.streaming.exchange_harness import Floor, exchange_plan, given_topics


def plan_for(groups, *, nodes=3, **more):
    members = {name: tuple(sorted(some)) for name, some in groups.items()}
    plan = exchange_plan(NetworkPlan, groups=members, nodes=nodes, **more)
    return replace(plan, ingress=first_ingress(plan))


def floor_for(world, seed, **options):
    plan = plan_for(world.configured, output=world.output, **options)
    return Floor(plan, NetworkOperator(plan), route(plan), given_topics(world), seed)
