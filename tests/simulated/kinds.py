"""What Spark, the disk and operators may do besides, in histories of seeds from FROM to UNTIL."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import partial

from sequencer import LinearLabels
from sequencer.channels import Skip, Wait
from streaming.verify import channel
from tests.simulated.outages import power_cut
from tests.simulated.pipelines import MORE_TOPICS, PARTITIONS, asking, judged, judged_channels
from tests.simulated.spark import Driver
from tests.simulated.world import BEGAN_MS

YEARS_LATER_MS = BEGAN_MS + 10**12
FROM, UNTIL = 3_000_000, 4_000_000
BESIDE_REFUSALS_FROM = 5_000_000
"""From this seed on histories have these kinds, and Kafka refuses some records, too."""
FORGETTING_FROM = 6_000_000
"""From this seed on names are forgotten, besides, that were not used for a second or some."""
FORGOTTEN_MS = (200, 1_000, 1_000, 5_000)
HELD_MAX = (10_000, 10_000, 3)
LOST_SECONDS = (0.5, 3.0, 10.0)


@dataclass(frozen=True)
class Kinds:
    """What a history has of it.

    ``tries``: how often a task may fail (`spark.task.maxFailures`). ``decisions``: whether power
    cuts may take `decisions.json`. ``retained``: how many entries of its logs Spark keeps, None for
    all. ``marks``: whether progress marks are written. ``rules``: whether channels have other rules
    after a restart. ``forgotten_ms``: when unused names of groups and multicasts are forgotten, None
    for not at all.
    """

    tries: int = 1
    decisions: bool = False
    retained: int | None = None
    marks: bool = False
    rules: bool = False
    forgotten_ms: int | None = None


SURELY = {
    "retries": Kinds(tries=4),
    "decisions": Kinds(decisions=True),
    "purged": Kinds(retained=2),
    "marks": Kinds(marks=True),
    "rules": Kinds(rules=True),
    "forgetting": Kinds(forgotten_ms=1_000),
}
"""What a history has that is aimed at one of them."""


def drawn(seed, wanted):
    """What a seed's history has."""
    if wanted:
        return SURELY[wanted]
    if not (FROM <= seed < UNTIL or seed >= BESIDE_REFUSALS_FROM):
        return Kinds()
    rng = random.Random(f"kinds {seed}")
    made = Kinds(
        tries=rng.choice([1, 2, 4, 4]),
        decisions=rng.random() < 0.7,
        retained=rng.choice([None, 2, 2, 3, 5]),
        marks=rng.random() < 0.4,
        rules=rng.random() < 0.25,
    )
    return replace(made, forgotten_ms=rng.choice(FORGOTTEN_MS)) if seed >= FORGETTING_FROM else made


# --- Workers of which the driver loses sight.


def lost_worker(history, rng):
    """The driver loses sight of a worker at work, which goes on for some seconds."""
    stage = rng.choice(["source", "operator", "sink", "sink"])
    seconds, count = rng.choice(LOST_SECONDS), rng.choice([1, 2, 5])

    def act(left=count, tries=2_000):
        driver = history.service.driver
        busy = [w for w in driver.workers[stage] if w.alive and w.busy and not w.lost]
        if busy:
            worker = history.world.rng.choice(busy)
            worker.lost = True
            history.world.note(f"the driver loses sight of {worker.name}")
            history.world.at(history.world.rng.random() * seconds, worker.kill)
            driver.task.wake()
            left -= 1
        if left and tries and not history.healed:
            history.world.at(0.001, lambda: act(left, tries - 1))

    return f"the driver loses sight of {stage} workers", act


def lost_and_paused(history, rng):
    """The same worker stands still meanwhile, and goes on beside its successor."""
    stage = rng.choice(["operator", "sink", "sink"])
    seconds = rng.choice([0.05, 0.3, 1.0, 3.0])

    def act(tries=2_000):
        driver = history.service.driver
        busy = [w for w in driver.workers[stage] if w.alive and w.busy and not w.lost]
        if not busy:
            if tries and not history.healed:
                history.world.at(0.001, lambda: act(tries - 1))
            return
        worker = history.world.rng.choice(busy)
        worker.lost = True
        worker.pause(seconds)
        history.world.at(seconds + history.world.rng.random() * 3, worker.kill)
        driver.task.wake()

    return f"the driver loses sight of a {stage} worker that stands still", act


def restarted(history, rng):
    """The driver dies some times, soon one after the other, in the middle of its batches."""
    moments = [rng.random() * 2 for _ in range(rng.choice([1, 2, 4]))]

    def kill():
        history.service.driver.kill()

    def act():
        history.service.restart_seconds = 0.05
        for moment in moments:
            history.world.at(moment, kill)

    return "kill the driver some times", act


def power_cut_when_deciding(history, rng):
    """The power is cut when the service has just written what it decided."""
    _, cut = power_cut(history, rng)
    seconds = rng.choice([0.0005, 0.005, 0.05])

    def act():
        history.service.restart_seconds = 0.05
        history.storage.at_decision.append(decided)
        history.service.driver.kill()

    def decided():
        history.world.at(history.world.rng.expovariate(1 / seconds), cut)

    return "a power cut when decisions are written", act


def deposed_of_outputs(history, rng):
    """Whoever marks progress after a restart finds a broker that led the outputs and does not know."""
    number, seconds, later_s = rng.randrange(3), 12.0, rng.choice([0.3, 1.0, 3.0])
    begun = []

    def fault(connection, request, fate):
        if not begun or not isinstance(connection.network.process, Driver):
            return
        if type(request).__name__ == "MetadataRequest" and connection.node != number:
            fate.lost = {each.name for each in request.topics} >= {"in", "out"}

    def act():
        if all(each.up and not each.cut_off for each in history.kafka.brokers):
            for (topic, _), log in history.kafka.logs.items():
                log.lead(number if topic == "out" else (number + 1) % 3)
            history.kafka.cut_off(number)
            history.heal_after(seconds)
            history.kafka.faults.append(fault)
            history.world.at(later_s, begin)
            history.world.at(seconds, lambda: history.kafka.back(number, fault))

    def begin():
        begun.append(number)
        history.service.driver.kill()

    return "who marks progress finds a deposed leader of outputs", act


KINDS = (
    *(lost_worker, lost_worker, lost_and_paused, lost_and_paused),
    *(restarted, power_cut_when_deciding, deposed_of_outputs),
)


# --- Rules that change.


def changing(rng, folder, span):
    """Channels that ask for what is missing, whose rules are others after a restart.

    A message that finds more held than some of the rules allow may be rejected.
    """
    made = asking(rng, folder, span)
    first = made.plan.rules
    waits = rng.random() < 0.3
    for _ in range(rng.choice([1, 2])):
        gap = Wait() if waits else Skip(round(rng.choice([0.05, 0.3, 1]) * span * 1000))
        ask_ms = rng.choice([50, 400, None])
        rules = replace(first, gap=gap, ask_ms=ask_ms, held_max=rng.choice(HELD_MAX))
        made.others.append(replace(made.plan, rules=rules))
    made.faults_of, made.ends = changed_faults, not waits
    return made


def changed_faults(records, finished):
    """What `sequencer verify` finds of channels whose rules changed."""
    settings = channel.ChannelSettings(
        "p", LinearLabels(), 1_000_000, output_partitions=PARTITIONS, held_max=min(HELD_MAX)
    )
    return judged_channels(settings, records, finished)


# --- Names that are forgotten.


def forget(pipeline, after_ms):
    """Have groups and multicasts forget unused names after this time; the judge knows no moments."""
    if pipeline.plan.discipline == "channel":
        return
    pipeline.plan = replace(pipeline.plan, retire_after_ms=after_ms)
    judge_topics, settings = pipeline.faults_of.args
    settings = replace(settings, retire_after_ms=after_ms, now_ms=YEARS_LATER_MS)
    pipeline.faults_of = partial(judged, judge_topics, settings)


CHANGING = "changing"
PIPELINES = {CHANGING: changing}
TOPICS = {CHANGING: MORE_TOPICS["asking"]}
