"""The pipelines that histories run: a plan, what users send, and who judges the topics."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial

from sequencer import LinearLabels
from sequencer.channels import Rules, Skip
from streaming.disciplines.broadcast import pack_for_all
from streaming.disciplines.channels.core import ChannelOperator
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.channels.records import arrival_schema, make_packs
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
from streaming.disciplines.state_keys import shard_keys
from streaming.verify import channel, group, multicast
from streaming.verify.accounts import Material, Settings
from tests.simulated import judge
from tests.simulated.world import BEGAN_MS
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts
from tests.streaming.verify.worlds import PARTITIONS, SUBSCRIBERS, settings_for

TOPICS = {"in": 2, "commands": 1, "out": PARTITIONS, "rejects": 1, "events": 1, "transit": 2}
SPLIT_TOPICS = {f"out.{name}": PARTITIONS for name in SUBSCRIBERS}
MORE_TOPICS = {"asking": {"wanted": 2}, "split": SPLIT_TOPICS}
"""Of some pipelines."""
UNTOLD = 0.3
"""Of the labels that don't come."""
STEPS_SECOND = 10
"""So much of a world's users happens in a second."""


@dataclass
class Pipeline:
    """One pipeline; ``sends`` are (moment, topic, partition, records) in the order of each partition.

    ``faults_of(records, finished)`` judges the committed records of the topics by name. ``ends``:
    nothing waits for ever, so at the end each message is delivered or rejected. ``settles``: what
    waits for a time is done at the end. ``by_schema``: labels are in values, which a registry has
    the schemas of. ``others``: plans that a start may have instead.
    """

    plan: object
    operator: object
    making: object
    sends: list
    faults_of: object
    ends: bool = False
    settles: bool = False
    by_schema: bool = False
    outputs: tuple = ("out",)
    others: list = field(default_factory=list)


def common(**more):
    """What all plans have."""
    outputs = {name: count for name, count in TOPICS.items() if name not in ("in", "commands")}
    return {
        "service": "s",
        "pipeline": "p",
        "inputs": ("in",),
        "commands": "commands",
        **{name: name for name in ("rejects", "events")},
        "output": "out",
        "partitions": outputs,
        "state_partitions": 2,
        "producer": {"bootstrap.servers": "simulated:9092"},
        **more,
    }


def channels(rng, folder, span):
    """Labels of some channels in some disorder, with copies."""
    plan = ChannelPlan(
        **common(shards=rng.choice([2, 4]), compression="lz4", folder=rng.choice(["", folder])),
        rules=Rules(LinearLabels()),
    )
    making = partial(
        make_packs,
        keys=shard_keys(plan.shards, plan.state_partitions),
        schema=arrival_schema(plan),
        label="label",
        inputs=1,
        blocks=True,
    )
    sends, count = [], 0
    pause, most = rng.choice([(0.13 * span, 8), (0.33 * span, 40)])
    number_of, longest = rng.choice([(4, 40), (8, 20), (16, 10)])
    for number in range(number_of):
        channel = b"c%d" % number
        labels = list(range(rng.randrange(1, longest)))
        labels += rng.sample(labels, min(len(labels), rng.randrange(3)))
        labels.sort(key=lambda label: label + rng.random() * rng.choice([0, 3, 8]))
        moment = rng.random() * span / 2
        while labels:
            some = labels[: rng.randrange(1, most + 1)]
            labels = labels[len(some) :]
            records = []
            for label in some:
                count += 1
                value = b"%s:%d:%d" % (channel, label, count)
                stamp = BEGAN_MS + round(moment * 1000)
                records.append((stamp, channel, value, [("label", b"%d" % label)]))
            sends.append((moment, "in", number % TOPICS["in"], records))
            moment += rng.expovariate(1 / pause)
    return Pipeline(plan, ChannelOperator, making, sends, judge.channel_faults)


def asking(rng, folder, span):
    """The same where missing labels are asked for: of most that don't come it is said that they won't.

    What waits for the others is skipped when its time is over.
    """
    made = channels(rng, folder, span)
    rules = Rules(LinearLabels(), gap=Skip(round(span * 1000)), ask_ms=rng.choice([50, 400]))
    partitions = {**made.plan.partitions, **MORE_TOPICS["asking"]}
    made.plan = replace(made.plan, rules=rules, wanted="wanted", partitions=partitions)
    sends = []
    for moment, topic, partition, records in made.sends:
        kept = [each for each in records if rng.random() > 0.1]
        missing = [each for each in records if each not in kept]
        for stamp, key, _, ((_, label),) in missing:
            if rng.random() < UNTOLD:
                continue
            first = int(label)
            said = {"channel": key.decode(), "epoch": 0, "from": first, "to": first + 1}
            value = json.dumps({**said, "not_coming": True}).encode()
            sends.append((moment + rng.random() * span, "commands", 0, [(stamp, None, value, [])]))
        sends.append((moment, topic, partition, kept))
    made.sends = [each for each in sorted(sends, key=lambda each: each[0]) if each[3]]
    made.faults_of, made.ends = verified_channels, True
    return made


def verified_channels(records, finished, *, repeats=False):
    """What `sequencer verify` finds of channels of which it knows no more than their labels."""
    settings = channel.ChannelSettings(
        "p",
        LinearLabels(),
        1_000_000,
        output_partitions=PARTITIONS,
        repeats_allowed=repeats,
    )
    return judged_channels(settings, records, finished)


def judged_channels(settings, records, finished):
    """What `sequencer verify` finds of channels in a history that has ended."""
    if not finished:
        return []
    outputs = sorted(records["out"], key=lambda each: each.place)
    events = [json.loads(each.value) for each in records["events"]]
    inputs = sorted(records["in"], key=lambda each: each.place)
    asked = records.get("wanted", [])
    topics = (outputs, records["rejects"], events, records["commands"], asked)
    verdict = channel.judge(settings, channel.Material(inputs, *topics))
    return [str(fault) for fault in verdict.faults]


def groups(rng, _folder, span, output="out"):
    """Messages to groups with overlaps, whose members change."""
    seed = rng.randrange(10**6)
    world = random_groups(seed, steps=steps(span), commands=rng.choice([0, 0.1]))
    world.output = output
    plan = BatchPlan(**common(shards=2, membership=encode_first(world.configured), output=output))
    settings = group_settings(world, across_groups=True, by_batch=True)
    return worked(
        rng, plan, GroupOperator, packed_for_all(plan), world, span, group.judge, settings
    )


def split(rng, folder, span):
    """The same where each subscriber has an output of its own."""
    made = groups(rng, folder, span, "out.{subscriber}")
    made.plan = replace(made.plan, partitions={**made.plan.partitions, **SPLIT_TOPICS})
    made.outputs = tuple(SPLIT_TOPICS)
    return made


def network(rng, _folder, span):
    """The same with the atoms of overlaps on sequencing nodes."""
    world = random_groups(rng.randrange(10**6), steps=steps(span), commands=rng.choice([0, 0.1]))
    members = {name: tuple(sorted(some)) for name, some in world.configured.items()}
    plan = NetworkPlan(**common(shards=2, groups=members, nodes=2), transit="transit")
    plan = replace(plan, ingress=first_ingress(plan))
    making = partial(spread_rows, plan=plan, route=group_route(plan))
    settings = group_settings(world)
    return worked(rng, plan, NetworkOperator, making, world, span, group.judge, settings)


def group_settings(world, **more):
    """What the judge of groups has to know."""
    return settings_for(group.GroupSettings, world, groups=world.configured, **more)


def multicasts(rng, _folder, span):
    """Multicasts among peers and nodes that come and go."""
    world = random_multicasts(rng.randrange(10**6), steps=steps(span), order="batch")
    plan = BatchMulticastPlan(**common(shards=2))
    making, settings = packed_for_all(plan), settings_for(Settings, world)
    return worked(rng, plan, MulticastOperator, making, world, span, multicast.judge, settings)


def protocol(order, rng, _folder, span):
    """Multicasts whose order peers agree on among themselves: by clocks, or by a counter."""
    world = random_multicasts(rng.randrange(10**6), steps=steps(span), order=order)
    plan = MulticastPlan(**common(shards=2), order=order, transit="transit")
    making = partial(spread_rows, plan=plan, route=multicast_route(plan))
    settings = settings_for(Settings, world)
    return worked(rng, plan, ProtocolOperator, making, world, span, multicast.judge, settings)


def steps(span):
    """What happens in so many seconds."""
    return round(STEPS_SECOND * span)


def packed_for_all(plan):
    """What packs records where all shards see all of them."""
    return partial(pack_for_all, keys=shard_keys(plan.shards, plan.state_partitions))


def worked(rng, plan, operator, making, world, span, judge_topics, settings):
    """A pipeline with what a world's users sent."""
    sends = []
    for (topic, partition), there in sorted(world.topics.records.items()):
        if topic in ("in", "commands"):
            moments = sorted(rng.random() * span for _ in there)
            for moment, record in zip(moments, there, strict=True):
                stamp = BEGAN_MS + round(moment * 1000)
                some = [(stamp, record.key, record.value, list(record.headers))]
                sends.append((moment, topic, partition, some))
    faults_of = partial(judged, judge_topics, settings)
    return Pipeline(plan, operator, making, sends, faults_of)


def judged(judge_topics, settings, records, finished):
    """What `sequencer verify` finds in the topics of a history that has ended."""
    if not finished:
        return []
    own = ("rejects", "events", "commands", "in")
    outputs = [each for name in records if name.startswith("out") for each in records[name]]
    verdict = judge_topics(settings, Material(outputs, *(records[name] for name in own)))
    return [str(fault) for fault in verdict.faults]


def deliver_at_least_once(pipeline):
    """Have a pipeline write without transactions; repeats are allowed then."""
    pipeline.plan = replace(pipeline.plan, delivery="at-least-once")
    pipeline.others = [replace(each, delivery="at-least-once") for each in pipeline.others]
    made = pipeline.faults_of
    if isinstance(made, partial) and made.args:
        *others, settings = made.args
        settings = replace(settings, repeats_allowed=True)
        pipeline.faults_of = partial(made.func, *others, settings)
    else:
        pipeline.faults_of = partial(verified_channels, repeats=True)


OTHERS = {"asking": asking, "split": split}
"""Pipelines that no earlier seed chooses, so that seeds mean what they meant."""
PIPELINES = {
    "channel": channels,
    "group": groups,
    "multicast": multicasts,
    "network": network,
    "clock": partial(protocol, "clock"),
    "counter": partial(protocol, "counter"),
}
