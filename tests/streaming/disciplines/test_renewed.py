"""All keys get a new incarnation in the middle of a history: every delivery has a name of its own."""

import json
from collections import defaultdict
from dataclasses import replace

import pyarrow as pa
import pytest

from sequencer.channels import ShardState
from streaming.disciplines.groups.batch.codec import encode_first
from streaming.disciplines.groups.batch.core import BatchOperator as GroupOperator
from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.route import first_ingress, route
from streaming.disciplines.groups.plan import BatchPlan, NetworkPlan
from streaming.disciplines.multicast.batch.core import BatchOperator
from streaming.disciplines.multicast.plan import BatchMulticastPlan
from tests.streaming.broadcast_harness import Stage, broadcast_plan
from tests.streaming.disciplines.multicast.floors import floor_for
from tests.streaming.disciplines.multicast.histories import history
from tests.streaming.exchange_harness import Floor, exchange_plan, given_topics
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts


def groups():
    world = random_groups(3, commands=0.1, steps=160)
    plan = broadcast_plan(BatchPlan, membership=encode_first(world.configured))
    return Stage(plan, GroupOperator(plan), given_topics(world), 3)


def network():
    world = random_groups(3, commands=0.1, steps=160)
    members = {name: tuple(sorted(some)) for name, some in world.configured.items()}
    plan = exchange_plan(NetworkPlan, groups=members, nodes=3)
    plan = replace(plan, ingress=first_ingress(plan))
    return Floor(plan, NetworkOperator(plan), route(plan), given_topics(world), 3)


def multicasts():
    plan = broadcast_plan(BatchMulticastPlan)
    return Stage(plan, BatchOperator(plan), history(3), 3)


def clock():
    return floor_for(random_multicasts(3, order="clock"), 3)


def counter():
    return floor_for(random_multicasts(4, order="counter"), 4)


def numbers(topics):
    """By key and incarnation, the sequences in their order."""
    found = defaultdict(list)
    for record in topics.all("out"):
        headers = dict(record.headers)
        found[record.key, int(headers["incarnation"])].append(int(headers["sequence"]))
    return found


@pytest.mark.parametrize("made", [groups, network, multicasts, clock, counter])
def test_numbers_begin_again(made):
    stage = made()
    while stage.left() and len(stage.topics.all("out")) < 10:
        stage.batch()
    before = numbers(stage.topics)
    renewed_ms = stage.now_ms + 5
    renewals = ((renewed_ms, stage.batches),)
    stage.plan = stage.operator.plan = replace(stage.operator.plan, renewals=renewals)
    stage.run()
    after = numbers(stage.topics)
    assert {key for key, _ in before} & {key for key, since in after if since == renewed_ms}
    for (key, since), sequences in after.items():
        assert sequences == [*range(len(sequences))]
        assert since >= renewed_ms or sequences == before[key, since], "nothing goes on"


@pytest.mark.parametrize("made", [groups, network, multicasts])
def test_who_is_forgotten_and_comes_back_has_another_incarnation(made):
    """Events that tell of two ends have two ids, also in the batch in which all begin again."""
    for turn in range(3, 12):
        stage = made()
        while stage.left() and len(stage.topics.all("out")) < turn:
            stage.batch()
        renewals = ((stage.now_ms + 50, stage.batches),)
        plan = replace(stage.operator.plan, renewals=renewals, retire_after_ms=10)
        stage.plan = stage.operator.plan = plan
        stage.run()
        ends = [json.loads(each.value) for each in stage.topics.all("events")]
        ids = [each["id"] for each in ends if each["event"] == "retired"]
        assert len(set(ids)) == len(ids)


def test_channels_begin_again():
    before = replace(
        ShardState.empty(),
        keys=pa.array([b"a", b"b"], pa.binary()),
        **{name: pa.array([7, 9]).to_numpy() for name in ShardState.empty().columns()},
    )
    after = before.renewed(8)
    assert after.sequence.tolist() == [0, 9]
    assert after.incarnation.tolist() == [8, 9]
    assert after.renewed(8) is after
    assert after.frontier.tolist() == before.frontier.tolist(), "the labels go on"
