"""Groups and multicasts whose users give commands among their messages, and get notices."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from streaming.disciplines.exchange import spread_rows
from streaming.disciplines.groups.batch.codec import encode_first
from streaming.disciplines.groups.batch.core import BatchOperator as GroupOperator
from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.route import first_ingress
from streaming.disciplines.groups.network.route import route as group_route
from streaming.disciplines.groups.plan import BatchPlan, NetworkPlan
from streaming.disciplines.multicast.batch.core import BatchOperator as MulticastOperator
from streaming.disciplines.multicast.plan import BatchMulticastPlan, MulticastPlan
from streaming.disciplines.multicast.protocol.core import MulticastOperator as ProtocolOperator
from streaming.disciplines.multicast.protocol.route import route as multicast_route
from streaming.disciplines.plan import Headers
from streaming.verify import group, multicast
from streaming.verify.accounts import Settings
from tests.simulated.pipelines import Pipeline, common, judged, packed_for_all
from tests.simulated.ruled import DAY_MS, PREFIXES, RECORDS_SECOND, sends_of
from tests.simulated.world import BEGAN_MS
from tests.streaming.disciplines.groups import histories as group_histories
from tests.streaming.disciplines.multicast import histories as multicast_histories
from tests.streaming.verify.worlds import PARTITIONS

NODE_OPS = ("create-node", "destroy-node", "release")


def members(rng, span):
    """What members of groups send and ask for, and operators; by topic and partition."""
    topics = {}
    given = group_histories.history(rng.randrange(10**6), round(RECORDS_SECOND * span / 3))
    for record in given.all("in", "commands"):
        sender = rng.randrange(3)
        of_input = record.topic == "in"
        place = (record.topic, sender % 2 if of_input else 0)
        key = b"p%d" % sender if of_input else record.key
        topics.setdefault(place, []).append((key, record.value, list(record.headers)))
    return sends_of(rng, span, topics)


def shared_settings(plan):
    """What both judges have to know."""
    return {
        "pipeline": "p",
        "output": "out",
        "partitions": {"out": PARTITIONS},
        "header_prefix": plan.headers.prefix,
        "retire_after_ms": 7 * DAY_MS,
        "now_ms": BEGAN_MS + DAY_MS,
        "input_commands": plan.input_commands,
    }


def group_settings(plan, *, by_batch):
    """What the judge of groups has to know."""
    return group.GroupSettings(
        **shared_settings(plan),
        groups={name: frozenset(some) for name, some in group_histories.GROUPS.items()},
        across_groups=by_batch,
        by_batch=by_batch,
        stamps=plan.stamps,
    )


def asked_of_groups(rng):
    """What the file says of groups."""
    return {
        "input_commands": group_histories.OPS,
        "notices": rng.random() < 0.7,
        "stamps": rng.random() < 0.7,
        "headers": Headers(rng.choice(PREFIXES)),
    }


def joined(rng, _folder, span):
    """Groups by the batch whose members join and leave among their messages."""
    first = {name: frozenset(some) for name, some in group_histories.GROUPS.items()}
    plan = BatchPlan(**common(shards=2), membership=encode_first(first), **asked_of_groups(rng))
    faults_of = partial(judged, group.judge, group_settings(plan, by_batch=True))
    return Pipeline(plan, GroupOperator, packed_for_all(plan), members(rng, span), faults_of)


def joined_network(rng, _folder, span):
    """The same on a network of nodes."""
    first = {name: tuple(some) for name, some in group_histories.GROUPS.items()}
    shared = common(shards=2, groups=first, nodes=rng.choice([1, 2]))
    plan = NetworkPlan(**shared, transit="transit", **asked_of_groups(rng))
    plan = replace(plan, ingress=first_ingress(plan))
    making = partial(spread_rows, plan=plan, route=group_route(plan))
    faults_of = partial(judged, group.judge, group_settings(plan, by_batch=False))
    return Pipeline(plan, NetworkOperator, making, members(rng, span), faults_of)


def owners(rng, span):
    """What peers send and ask for, and operators; by topic and partition."""
    topics = {}
    count = round(RECORDS_SECOND * span / 3)
    given = multicast_histories.history(rng.randrange(10**6), count, in_input=0.6)
    for record in given.all("in", "commands"):
        number = sum(record.key or b"") % 2 if record.topic == "in" else 0
        there = topics.setdefault((record.topic, number), [])
        there.append((record.key, record.value, list(record.headers)))
    return sends_of(rng, span, topics)


def node_settings(plan):
    """What the judge of multicasts has to know."""
    return Settings(**shared_settings(plan))


def owned(rng, _folder, span):
    """Multicasts by the batch whose peers make and destroy nodes among their messages."""
    more = {"input_commands": NODE_OPS, "headers": Headers(rng.choice(PREFIXES))}
    plan = BatchMulticastPlan(**common(shards=2), **more)
    faults_of = partial(judged, multicast.judge, node_settings(plan))
    return Pipeline(plan, MulticastOperator, packed_for_all(plan), owners(rng, span), faults_of)


def owned_protocol(order, rng, _folder, span):
    """The same by clocks or the counter."""
    more = {"input_commands": NODE_OPS, "headers": Headers(rng.choice(PREFIXES))}
    plan = MulticastPlan(**common(shards=2), order=order, transit="transit", **more)
    making = partial(spread_rows, plan=plan, route=multicast_route(plan))
    faults_of = partial(judged, multicast.judge, node_settings(plan))
    return Pipeline(plan, ProtocolOperator, making, owners(rng, span), faults_of)
