"""A channel pipeline in front of a pipeline of groups or multicasts, in histories of seeds from FROM on.

Senders' messages are labelled and arrive in some disorder; the channel pipeline puts them in order, and
its output is the other's input. Each has a service and a checkpoint of its own. Faults come to one of
them, by the seed; the other one is killed now and then, too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import partial

from sequencer import LinearLabels
from sequencer.channels import Rules
from streaming.disciplines.channels.core import ChannelOperator
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.channels.records import arrival_schema, make_packs
from streaming.disciplines.state_keys import shard_keys
from tests.simulated import pipelines
from tests.simulated.judge import channel_faults
from tests.simulated.pipelines import Pipeline, common
from tests.simulated.spark import Service
from tests.simulated.storage import Storage

FROM = 9_500_000
DRAWN = (
    *("group", "multicast", "network", "clock", "counter"),
    *("split", "joined", "joined network", "owned", "owned clock", "owned counter"),
)
FIRST = {"raw": 2, "q.rejects": 1, "q.events": 1, "q.commands": 1}
"""Topics of the pipeline in front, besides `in`, to which it writes."""
LATE_SHARE, LATE_SECONDS, AGAIN_SHARE = 0.3, 0.4, 0.1


def drawn(seed, aim):
    """What decides of a seed's chain; None where it has none."""
    is_one = seed >= FROM or aim.kind == "a chain"
    return random.Random(f"chains {seed}") if is_one else None


@dataclass
class Link:
    """The other service of a chain, which has the checkpoint ``storage``; it starts ``later_s``."""

    service: Service
    pipeline: Pipeline
    storage: Storage
    later_s: float

    def faults_of(self, history, records):
        """What is wrong with it."""
        ended, surprises = self.service.ended, self.service.surprises
        faults = [f"an error of the program: {each}" for each in surprises[:1]]
        faults += [] if ended is None else [f"the other service ended: {ended!r}"]
        return faults + self.pipeline.faults_of(records, history.finished)


def in_front(rng, behind, folder):
    """The pipeline whose output the other one reads; it takes over what users send."""
    topics = {"rejects": "q.rejects", "events": "q.events", "commands": "q.commands"}
    outputs = {"in": pipelines.TOPICS["in"], "q.rejects": 1, "q.events": 1}
    shards = rng.choice([2, 4])
    more = {"pipeline": "q", "inputs": ("raw",), "output": "in", "partitions": outputs, **topics}
    plan = ChannelPlan(
        **common(shards=shards, compression="lz4", folder=folder, **more),
        rules=Rules(LinearLabels()),
    )
    keys = shard_keys(plan.shards, plan.state_partitions)
    making = partial(
        make_packs, keys=keys, schema=arrival_schema(plan), label="label", inputs=1, blocks=True
    )
    own = [each for each in behind.sends if each[1] == "in"]
    behind.sends = [each for each in behind.sends if each[1] != "in"]
    return Pipeline(plan, ChannelOperator, making, labelled(rng, own), faults_in_front)


def labelled(rng, sends):
    """The same with labels, some of them late, some of them twice; those without a key have none."""
    counts, found = {}, []
    for moment, _, partition, records in sends:
        for stamp, key, value, headers in records:
            if key is None:
                continue  # a channel of nobody: the pipeline in front rejects it
            label = counts.get(key, 0)
            counts[key] = label + 1
            record = (stamp, key, value, [*headers, ("label", b"%d" % label)])
            for _ in range(1 + (rng.random() < AGAIN_SHARE)):
                late_s = rng.random() * LATE_SECONDS if rng.random() < LATE_SHARE else 0.0
                found.append((moment + late_s, "raw", partition, [record]))
    return sorted(found, key=lambda each: each[0])


def faults_in_front(records, finished):
    """What is wrong with the output of the pipeline in front."""
    own = {"in": "raw", "out": "in", "rejects": "q.rejects"}
    return channel_faults({role: [*map(shown, records[own[role]])] for role in own}, finished)


def shown(record):
    """The record with a value, also where that is null: the judge of channels has none for nothing."""
    return replace(record, value=b"null") if record.value is None else record


def prepare(history, rng, folder):
    """Put a pipeline in front of a history's own; faults come to either."""
    is_first, is_folder = rng.random() < 0.5, history.storage.lockable
    own_folder = f"{folder}/q"
    in_files = own_folder if is_first and is_folder and rng.random() < 0.5 else ""
    mine = in_front(rng, history.pipeline, in_files)
    storage = Storage(history.world, own_folder, lockable=is_folder, synced=history.storage.synced)
    part_records_max = history.pipeline.plan.part_records_max
    mine.plan = replace(mine.plan, part_records_max=part_records_max, sync=storage.synced)
    service = Service(history.world, history.kafka, mine, storage)
    service.tries = history.service.tries
    later_s = rng.choice([0.0, 0.0, 1.0, history.span, history.span + 1])
    history.other = Link(service, mine, storage, later_s)
    if is_first:
        history.other = Link(history.service, history.pipeline, history.storage, later_s)
        history.service, history.pipeline, history.storage = service, mine, storage
    for _ in range(rng.choice([0, 1, 3])):
        history.world.at(rng.random() * history.span, partial(killed, history.other, rng))


def killed(other, rng):
    """The driver of the other service dies, or one of its workers."""
    driver = other.service.driver
    if driver is None:
        return
    workers = [each for some in driver.workers.values() for each in some if each.alive]
    victim = rng.choice(workers) if workers and rng.random() < 0.6 else driver
    victim.kill()


def is_through(history):
    """Whether the other pipeline has read all that there is, too."""
    storage, plan = history.other.storage, history.other.pipeline.plan
    if storage.done() < 0 or storage.batch_in_doubt() >= 0:
        return False
    end, _ = storage.offsets[storage.done()]
    return all(
        end.get(topic, {}).get(str(number), 0) == log.end
        for (topic, number), log in history.kafka.logs.items()
        if topic in plan.reads
    )
