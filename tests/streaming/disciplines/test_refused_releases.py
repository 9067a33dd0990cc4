"""Answers to releases name places in peers' streams, also where Kafka refuses what lies before."""

import json

import pytest

from streaming.disciplines.multicast.batch.core import BatchOperator
from streaming.disciplines.multicast.plan import BatchMulticastPlan
from streaming.disciplines.multicast.protocol.core import MulticastOperator
from streaming.disciplines.multicast.protocol.route import route
from tests.seeds import seeds
from tests.streaming.broadcast_harness import broadcast_plan
from tests.streaming.disciplines.multicast.floors import events, plan_for
from tests.streaming.disciplines.multicast.placed_model import OPS, ask, history, judged, put
from tests.streaming.disciplines.refusals import Refusing as RefusingFloor
from tests.streaming.disciplines.refusing import Refusing as RefusingStage
from tests.streaming.verify.worlds import Topics

ORDERS = ("batch", "clock", "counter")


def refusing(order, topics, seed, choose):
    shards = 1 + seed % 3
    if order == "batch":
        plan = broadcast_plan(BatchMulticastPlan, shards=shards, input_commands=OPS)
        return RefusingStage(plan, BatchOperator(plan), topics, seed, choose=choose)
    plan = plan_for(order, shards=shards, input_commands=OPS)
    return RefusingFloor(plan, MulticastOperator(plan), route(plan), topics, seed, choose=choose)


@pytest.mark.parametrize("order", ORDERS)
def test_a_release_behind_a_refused_copy(order):
    topics = Topics()
    ask(topics, "p", "create-node", node="n", owner="p")
    for value in (b"first", b"refused", b"second"):
        put(topics, "s", value, [("to", "p,q")])
    ask(topics, "s", "release", node="n", peer="p", id="release")
    put(topics, "s", b"third", [("to", "p,q")])
    stage = refusing(
        order, topics, 1, lambda _, record: (record.key, record.value) == (b"p", b"refused")
    )
    stage.run(whole=True)
    got = {r.value: dict(r.headers) for r in topics.all("out") if r.key == b"p"}
    assert [*got] == [b"first", b"second", b"third"]
    (answer,) = [each for each in events(stage, "command") if each["command"] == "release"]
    assert answer["sequence"] == int(got[b"third"]["sequence"]) == 2


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", seeds(4, 100))
def test_random_histories_of_which_kafka_refuses_some(seed, order):
    def some(stage, record):
        return stage.rng.random() < 0.3 and "notice" not in dict(record.headers)

    topics = history(seed)
    stage = refusing(order, topics, seed, some)
    stage.run(whole=seed % 2 == 0)
    assert stage.refused
    verdict = judged(topics)
    assert verdict.good, verdict.faults[:3]
    ids = [json.loads(record.value)["id"] for record in topics.all("events")]
    assert len(set(ids)) == len(ids)
