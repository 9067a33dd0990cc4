"""Multicasts in the order of the batch on a stage, beside a model of each batch."""

import json
from collections import Counter, defaultdict

from streaming.disciplines.multicast.batch.core import BatchOperator
from streaming.disciplines.multicast.plan import BatchMulticastPlan
from tests.streaming.broadcast_harness import Stage, broadcast_plan
from tests.streaming.disciplines.multicast.batch_model import Model
from tests.streaming.disciplines.multicast.histories import history


def stage_for(topics, seed, *, shards=2, **more):
    plan = broadcast_plan(BatchMulticastPlan, shards=shards, **more)
    return Stage(plan, BatchOperator(plan), topics, seed)


def some_of(topics, before, after, topic):
    """What a batch took of a topic, in order of arrival."""
    return [
        record
        for place, there in sorted(topics.records.items())
        if place[0] == topic
        for record in there[before.get(place, 0) : after.get(place, 0)]
    ]


def run_both(seed, *, whole=False, wait_ms=None, shards=2, **more):
    """The service's records and the model's, worked through in the same batches."""
    topics = history(seed, in_input=0.8 if "input_commands" in more else 0.0)
    stage = stage_for(topics, seed, shards=shards, **more)
    model = Model(stage.plan.retire_after_ms, stage.plan.input_commands)
    while stage.left():
        before = dict(stage.read)
        stage.batch(whole=whole, wait_ms=wait_ms)
        taken = [some_of(topics, before, stage.read, name) for name in ("commands", "in")]
        model.batch(*taken, stage.now_ms)
    return stage, model


def by_key(records):
    found = defaultdict(list)
    for record in records:
        found[record[0]].append(record)
    return found


def plain(records):
    return [(r.key, r.value, r.headers, r.timestamp) for r in records]


def counted(events, names):
    """Events without what the model does not say."""
    return Counter(json.dumps({n: e[n] for n in names if n in e}) for e in events)


def assert_same(stage, model):
    topics = stage.topics
    assert by_key(plain(topics.all("out"))) == by_key(model.out)
    assert Counter(map(str, plain(topics.all("rejects")))) == Counter(map(str, model.rejects))
    events = [json.loads(record.value) for record in topics.all("events")]
    assert len({each["id"] for each in events}) == len(events)
    names = {name for each in model.events for name in each}
    assert counted(events, sorted(names)) == counted(model.events, sorted(names))
    totals = stage.totals()
    notices = [headers for _, _, headers, _ in model.out if "notice" in dict(headers)]
    assert totals.seen + totals.commands == len(topics.all("in"))
    assert totals.notices == len(notices)
    assert totals.delivered == len(model.out) - len(notices)
    assert totals.undelivered == sum(e["event"] == "undelivered" for e in events)
    assert sum(totals.rejected.values()) == len(model.rejects)
    assert totals.held == totals.blocked == totals.transit == 0
    return len(notices)
