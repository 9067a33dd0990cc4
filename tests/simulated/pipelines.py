"""The pipelines that histories run: a plan, what users send, and who judges the topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from sequencer import LinearLabels
from sequencer.channels import Rules
from streaming.disciplines.broadcast import pack_for_all
from streaming.disciplines.channels.operator import ChannelOperator
from streaming.disciplines.channels.pack import arrival_schema, make_packs
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.groups.batch.codec import encode_first
from streaming.disciplines.groups.batch.operator import BatchOperator as GroupOperator
from streaming.disciplines.groups.plan import BatchPlan
from streaming.disciplines.multicast.batched import BatchOperator as MulticastOperator
from streaming.disciplines.multicast.plan import BatchMulticastPlan
from streaming.disciplines.state_keys import shard_keys
from streaming.verify import group, multicast
from streaming.verify.accounts import Material, Settings
from tests.simulated import judge
from tests.simulated.world import BEGAN_MS
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts
from tests.streaming.verify.worlds import PARTITIONS, settings_for

TOPICS = {"in": 2, "commands": 1, "out": PARTITIONS, "rejects": 1, "events": 1}
SENDING_SECONDS = 6.0


@dataclass
class Pipeline:
    """One pipeline; ``sends`` are (moment, topic, partition, records) in the order of each partition.

    ``faults_of(records, finished)`` judges the committed records of the topics by name.
    """

    plan: object
    operator: object
    making: object
    sends: list
    faults_of: object
    sent: list = field(default_factory=list)


def common(**more):
    """What all plans have."""
    outputs = {name: count for name, count in TOPICS.items() if name not in ("in", "commands")}
    return {
        "service": "s",
        "pipeline": "p",
        "inputs": ("in",),
        "commands": "commands",
        **{name: name for name in ("output", "rejects", "events")},
        "output": "out",
        "partitions": outputs,
        "state_partitions": 2,
        "producer": {"bootstrap.servers": "simulated:9092"},
        **more,
    }


def channels(rng):
    """Labels of some channels in some disorder, with copies."""
    plan = ChannelPlan(
        **common(shards=rng.choice([2, 4]), compression="lz4", rules=Rules(LinearLabels()))
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
    pause, most = rng.choice([(0.8, 8), (2.0, 40)])
    number_of, longest = rng.choice([(4, 40), (8, 20), (16, 10)])
    for number in range(number_of):
        channel = b"c%d" % number
        labels = list(range(rng.randrange(1, longest)))
        labels += rng.sample(labels, min(len(labels), rng.randrange(3)))
        labels.sort(key=lambda label: label + rng.random() * rng.choice([0, 3, 8]))
        moment = rng.random() * SENDING_SECONDS / 2
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


def groups(rng):
    """Messages to groups with overlaps, whose members change."""
    seed = rng.randrange(10**6)
    world = random_groups(seed, steps=rng.choice([30, 90]), commands=rng.choice([0, 0.1]))
    plan = BatchPlan(**common(shards=2, membership=encode_first(world.configured)))
    settings = settings_for(
        group.GroupSettings, world, groups=world.configured, across_groups=True, by_batch=True
    )
    return broadcast(rng, plan, GroupOperator, world, partial(judged, group.judge, settings))


def multicasts(rng):
    """Multicasts among peers and nodes that come and go."""
    world = random_multicasts(rng.randrange(10**6), steps=rng.choice([30, 90]), order="batch")
    plan = BatchMulticastPlan(**common(shards=2))
    settings = settings_for(Settings, world)
    return broadcast(
        rng, plan, MulticastOperator, world, partial(judged, multicast.judge, settings)
    )


def broadcast(rng, plan, operator, world, faults_of):
    """A pipeline whose shards all see every record, with what a world's users sent."""
    making = partial(pack_for_all, keys=shard_keys(plan.shards, plan.state_partitions))
    sends = []
    for (topic, partition), there in sorted(world.topics.records.items()):
        if topic in ("in", "commands"):
            moments = sorted(rng.random() * SENDING_SECONDS for _ in there)
            for moment, record in zip(moments, there, strict=True):
                stamp = BEGAN_MS + round(moment * 1000)
                headers = list(record.headers)
                sends.append(
                    (moment, topic, partition, [(stamp, record.key, record.value, headers)])
                )
    return Pipeline(plan, operator, making, sends, faults_of)


def judged(judge_topics, settings, records, finished):
    """What `sequencer verify` finds in the topics of a history that has ended."""
    if not finished:
        return []
    own = ("rejects", "events", "commands", "in")
    verdict = judge_topics(settings, Material(records["out"], *(records[name] for name in own)))
    return [str(fault) for fault in verdict.faults]


PIPELINES = {"channel": channels, "group": groups, "multicast": multicasts}
