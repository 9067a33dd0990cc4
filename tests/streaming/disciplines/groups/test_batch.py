"""Groups in the order of the batch: random histories against a model, by any number of shards."""

import json
import random
from collections import Counter, defaultdict

import pytest

from streaming.disciplines.groups.batch.codec import encode_first
from streaming.disciplines.groups.batch.operator import BatchOperator
from streaming.disciplines.groups.plan import BatchPlan
from tests.streaming.broadcast_harness import Stage, broadcast_plan
from tests.streaming.disciplines.groups.model import REMEMBER_MS, Model
from tests.streaming.exchange_harness import given_topics
from tests.streaming.verify.worlds import random_groups

SHARDS = (1, 2, 3, 5)


class Told(Stage):
    """A stage that tells a model of each batch."""

    model = None

    def take(self, records):
        given = list(records)
        super().take(records)
        if self.model is not None and given:
            self.model.batch(given, self.now_ms)


def stage_for(configured, topics, seed=0, *, shards=2, output="out", **more):
    plan = broadcast_plan(
        BatchPlan,
        shards=shards,
        output=output,
        membership=encode_first(configured),
        retire_after_ms=REMEMBER_MS,
        **more,
    )
    return Told(plan, BatchOperator(plan), topics, seed)


def got(topics, *outputs):
    """What each subscriber got, in order: all that is in a record."""
    found = defaultdict(list)
    for record in topics.all(*outputs or ("out",)):
        found[record.key].append((record.value, record.timestamp, record.headers))
    return dict(found)


def events(topics):
    return [json.loads(record.value) for record in topics.all("events")]


@pytest.mark.parametrize("seed", range(24))
def test_random_histories_are_those_of_the_model(seed):
    world = random_groups(seed, commands=(0.02, 0.1, 0.3)[seed % 3], steps=160)
    stamps = seed % 5 != 4
    stage = stage_for(
        world.configured, given_topics(world), seed, shards=SHARDS[seed % 4], stamps=stamps
    )
    model = stage.model = Model(world.configured, stamps=stamps)
    stage.run()
    assert got(stage.topics) == model.by_key()
    rejects = [
        tuple(
            dict(r.headers)[f"reject-{name}"] for name in ("topic", "partition", "offset", "reason")
        )
        for r in stage.topics.all("rejects")
    ]
    expected = [(t.encode(), b"%d" % p, b"%d" % o, why.encode()) for t, p, o, why in model.rejects]
    assert sorted(rejects) == sorted(expected)
    told = Counter(each["event"] for each in events(stage.topics))
    assert told == Counter(kind for kind, *_ in model.events)
    changes = [
        (each["event"], each["group"], each["version"], each["members"])
        for each in events(stage.topics)
        if each["event"] in ("group-added", "group-changed")
    ]
    assert sorted(changes) == sorted(e for e in model.events if len(e) == 4)
    totals = stage.totals()
    assert totals.seen == len(stage.topics.all("in"))
    assert totals.delivered == len(model.outputs)
    assert totals.rejected == Counter(reason for *_, reason in model.rejects)
    assert totals.held == totals.transit == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_number_of_shards_does_not_matter(seed):
    world = random_groups(seed, commands=0.1)
    results = []
    for shards in SHARDS:
        stage = stage_for(world.configured, given_topics(world), seed, shards=shards)
        rng = random.Random(seed)
        while stage.left():  # the same batches whatever the shards
            stage.rng.seed(rng.random())
            stage.batch(wait_ms=rng.randrange(1, 200))
        results.append(got(stage.topics))
    assert all(each == results[0] for each in results)


@pytest.mark.parametrize("seed", range(4))
def test_any_split_into_batches_gives_the_same_numbers(seed):
    """Commands come first in a batch, so they are all in the first one here."""
    world = random_groups(seed, commands=0)
    results = []
    for turn in range(3):
        stage = stage_for(world.configured, given_topics(world), turn)
        stage.run(whole=turn == 0)
        if turn == 0:
            results.append(numbers(got(stage.topics)))
        else:
            one_partition = {k for k in results[0]}
            assert one_partition == numbers(got(stage.topics)).keys()


def numbers(outputs):
    """Without the times at which subscribers began."""
    return {
        key: [(value, headers[:-1]) for value, _, headers in some] for key, some in outputs.items()
    }
