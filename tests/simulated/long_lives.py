"""What a service meets that runs for months, in histories of seeds from FROM on.

Topics are given partitions; Kafka forgets what it keeps of a state partition that has written
nothing for a week; the sizes of transactions change between two starts, and how long they may be
open; an answer with records is cut anywhere; a copy of the checkpoint works on another machine.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

from streaming.sink.progress import BatchProgress
from tests.simulated import copies
from tests.simulated.outages import (
    UNNOTICED,
    clock_jump,
    lost_and_accepted,
    restored_and_accepted,
)
from tests.simulated.spark import Service
from tests.simulated.storage import Storage
from tests.simulated.world import BEGAN_MS

FROM = 7_000_000
"""From this seed on histories have this, besides what those of 6,000,000 have."""
PARTS = (1, 2, 5, 50, 10**6)
TIMEOUTS_MS = (2_000, 5_000, 60_000)
NEWCOMER = b"new%d"
PLAIN = {"label", "group", "to"}
"""Headers of records that anybody may send."""


def drawn(seed):
    """What a seed's history has of it, from a generator of its own."""
    return random.Random(f"long lives {seed}") if seed >= FROM else None


def vary(pipeline, rng):
    """Have each start write in transactions of other sizes, which may be open for as long as it says."""
    if rng is None:
        return
    plans = [pipeline.plan, *pipeline.others]
    pipeline.others = []
    for _ in range(3):
        plan = rng.choice(plans)
        producer = {**plan.producer, "transaction.timeout.ms": rng.choice(TIMEOUTS_MS)}
        changed = replace(plan, part_records_max=rng.choice(PARTS), producer=producer)
        pipeline.others.append(changed)


def prepare(history, rng):
    """What the history has from its beginning; returned are the faults that may come."""
    if rng is None:
        return ()
    history.kafka.cuts = rng.random() < 0.5
    some = (copied,) if rng.random() < 0.5 else ()
    some += (forgotten, forgotten) if rng.random() < 0.5 else ()
    return (another_partition, another_partition, *some)


def fitting(faults, own):
    """Leave out what does not go with a history's own faults.

    Some things show by progress that may be forgotten, and how old a batch is by clocks; nobody is
    to accept repeats while a copy is at work.
    """
    left_out = (*UNNOTICED, clock_jump) if forgotten in own else ()
    left_out += (restored_and_accepted, lost_and_accepted) if copied in own else ()
    return tuple(each for each in faults if each not in left_out)


def another_partition(history, rng):
    """A topic of input is given a partition; somebody who is new sends there, at once and later."""
    moments = sorted([0.0, *(rng.random() * 2 for _ in range(rng.choice([0, 1, 3])))])
    topic = rng.choice(["in", "in", "commands"])

    def act():
        number = history.kafka.topics[topic]
        history.kafka.add_partition(topic)
        sends = [each for each in history.pipeline.sends if each[1] == topic]
        if topic != "in" or not sends:
            return
        _, _, _, records = history.world.rng.choice(sends)
        plain = [each for each in records if {name for name, _ in each[3]} <= PLAIN]
        for turn, moment in enumerate(moments):
            some = [
                (BEGAN_MS, NEWCOMER % (10 * number + turn), b"new:%d:%d" % (turn, at), headers)
                for at, (*_, headers) in enumerate(plain)
            ]
            if some:
                send = partial(history.kafka.logs[topic, number].fill, some)
                history.world.at(moment, send)

    return f"{topic} is given a partition", act


def forgotten(history, _rng):
    """Kafka forgets progress and ids of state partitions that wrote nothing since others did."""

    def act():
        there, plan = history.kafka.coordinators, history.pipeline.plan
        groups = [plan.progress_group(each) for each in range(plan.state_partitions + 1)]
        known = {
            group: BatchProgress.from_text(*there.offsets[group]).batch
            for group in groups
            if group in there.offsets and not there.pending.get(group)
        }
        newest = max(known.values(), default=-1)
        for group, batch in known.items():
            each = there.transactions.get(group)
            is_idle = each is None or each.state.startswith(("Empty", "Complete"))
            if batch < newest and is_idle and batch != history.storage.batch_in_doubt():
                history.world.note(f"Kafka forgets {group}, which wrote batch {batch}")
                there.offsets.pop(group)
                there.transactions.pop(group, None)

    return "Kafka forgets idle partitions", act


class Copy(Service):
    """A service on a copy of the checkpoint, on another machine."""

    ticks = 2


def copied(history, rng):
    """Somebody starts the service on a copy of its checkpoint, beside it; both may end."""
    later_s = rng.choice([0.0, 0.3, 1.0])

    def act(tries=100):
        storage = history.storage
        if storage.done() < 0 or not storage.is_begun:  # they would have no batch in common
            if tries and not history.healed:
                history.world.at(0.1, lambda: act(tries - 1))
            return
        if history.copy is not None:
            return
        folder = f"{storage.folder}/copy"
        copy = Storage(history.world, folder, lockable=storage.lockable, synced=storage.synced)
        copies.copy(storage, copy)
        pipeline = history.pipeline

        def moved(plan):
            return replace(plan, folder=folder) if plan.folder else plan

        others = [moved(each) for each in pipeline.others]
        mine = replace(pipeline, plan=moved(pipeline.plan), others=others)
        history.copy = Copy(history.world, history.kafka, mine, copy)
        history.copy.tries = history.service.tries
        history.may_end |= {"CheckpointBehind", "Fenced"}
        history.world.at(later_s, history.copy.start)

    return "a copy of the checkpoint is started on another machine", act
