"""Groups in the order of the batch, on a stage that tells a model of each batch."""

import json

from streaming.disciplines.groups.batch.codec import encode_first
from streaming.disciplines.groups.batch.core import BatchOperator
from streaming.disciplines.groups.plan import BatchPlan
from tests.streaming.broadcast_harness import Stage, broadcast_plan
from tests.streaming.disciplines.groups.model import REMEMBER_MS


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


def events(topics):
    return [json.loads(record.value) for record in topics.all("events")]
