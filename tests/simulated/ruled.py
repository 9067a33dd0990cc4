"""Channels with any rules, sequences of labels and commands, as their file may say."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial

from sequencer import CyclicLabels, LinearLabels
from sequencer.channels import Fail, Rules, Skip, Wait
from sequencer.channels.delays import Quantile
from sequencer.channels.rules import Full
from streaming.disciplines.channels.core import ChannelOperator
from streaming.disciplines.channels.fields import fields_of
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.channels.records import arrival_schema, make_packs
from streaming.disciplines.channels.sql import header_name
from streaming.disciplines.plan import Headers
from streaming.disciplines.state_keys import shard_keys
from streaming.verify import channel
from streaming.verify.channel_readings import GapTime
from streaming.verify.values import Registered
from tests.simulated import registry
from tests.simulated.pipelines import MORE_TOPICS, Pipeline, common, judged_channels
from tests.simulated.world import BEGAN_MS
from tests.streaming.verify.channel_worlds import history
from tests.streaming.verify.worlds import PARTITIONS

CHANNEL_OPS = ("skip", "seed", "reset")
RECORDS_SECOND = 40
"""So many records come in a second, of channels; of groups and multicasts a third."""
FEW = 3
UNLABELLED, FAILING = 0.1, 0.1
LARGE_SHARE, LARGE_BYTES = 0.05, 5_000
"""Of values that are compressed by themselves."""
DAY_MS = 86_400_000
PREFIXES = ("", "", "seq-")
TOPICS = MORE_TOPICS["asking"]


def sends_of(rng, span, topics, inputs=2):
    """What users send, in the order of each partition, at random moments."""
    sends = []
    for (topic, partition), there in sorted(topics.items()):
        moments = sorted(rng.random() * span for _ in there)
        for moment, (key, value, headers) in zip(moments, there, strict=True):
            stamp = BEGAN_MS + round(moment * 1000)
            sends.append((moment, topic, partition % inputs, [(stamp, key, value, headers)]))
    return sorted(sends, key=lambda each: each[0])


def own_rules(rng, span, labels, *, settles, **every):
    """Rules of some channels; ``every``: what those of others have as well."""
    after_ms = round(rng.choice([0.05, 0.3, 1]) * span * 1000)
    by = Quantile(rng.choice([0.5, 0.9]), 20, after_ms + 20)
    gap = rng.choice([Wait(), Skip(after_ms), Skip(after_ms), Skip(by.most_ms, by)])
    return Rules(
        labels,
        gap=gap,
        held_max=rng.choice([10_000, 10_000, 3, 6]),
        full=rng.choice([Full.REJECT, Full.SKIP]),
        retire_after_ms=rng.choice([7 * DAY_MS, 7 * DAY_MS, 300, 2_000]),
        settle_ms=rng.choice([50, 500]) if settles else None,
        ask_ms=rng.choice([None, 50, 400]),
        **every,
    )


def rules_of(rng, span):
    """Rules of a pipeline's channels; some channels may have their own."""
    labels = rng.choice([LinearLabels(), LinearLabels(10, 5), CyclicLabels(modulus=64, start=60)])
    settles = labels.cycle is None and rng.random() < 0.3
    widths = (12, 30) if labels.cycle else (1_000_000, 12)
    every = {
        "window": rng.choice(widths),
        "drop_duplicates": rng.random() < 0.3,
        "pass_unlabelled": rng.random() < 0.3,
        "notices": rng.random() < 0.5,
    }
    make = partial(own_rules, rng, span, labels, settles=settles, **every)
    others = [(glob, make()) for glob in ("a", "?") if rng.random() < 0.4]
    return replace(make(), others=tuple(others))


def gap_time(rules):
    """What a gap's time is by these rules; none ends where the policy is to fail."""
    if isinstance(rules.gap, Fail):
        return GapTime(None, None)
    if rules.gap.by is not None:
        return GapTime(rules.gap.by.least_ms, rules.gap.by.most_ms)
    return GapTime(rules.gap.after_ms, rules.gap.after_ms)


def channel_settings(plan, *, changes):
    """What the judge of channels has to know; ``changes``: gaps are those of other rules, too."""
    rules = plan.rules

    def own(rule):
        bounds = {"window": rule.window, "held_max": FEW if changes else rule.held_max}
        gap = None if changes else gap_time(rule)
        return {**bounds, "drop_duplicates": rule.drop_duplicates, "gap": gap}

    return channel.ChannelSettings(
        "p",
        rules.labels,
        **own(rules),
        output_partitions=PARTITIONS,
        input_commands=plan.input_commands,
        header_prefix=plan.headers.prefix,
        pass_unlabelled=rules.pass_unlabelled,
        first_seen=rules.settle_ms is not None,
        label_header=header_name(plan.label),
        label_field=fields_of(plan.channel, plan.label).get("label"),
        rules=tuple(channel.ChannelRule(glob, **own(rule)) for glob, rule in rules.others),
    )


def ruled(rng, folder, span):
    """Channels with any rules; operators, and users among their records, give commands."""
    rules = rules_of(rng, span)
    asks, ops = rules.asks, rng.choice([(), CHANNEL_OPS])
    by_schema = rng.random() < 0.25
    shared = common(shards=rng.choice([2, 4]), compression=rng.choice(["lz4", "none", "gzip", ""]))
    if asks:
        shared["partitions"] = {**shared["partitions"], **MORE_TOPICS["asking"]}
    plan = ChannelPlan(
        **shared,
        rules=rules,
        headers=Headers(rng.choice(PREFIXES)),
        folder=rng.choice(["", folder]),
        wanted="wanted" if asks else "",
        input_commands=ops,
        label=registry.LABEL if by_schema else "header('label')",
    )
    making = partial(
        make_packs,
        keys=shard_keys(plan.shards, plan.state_partitions),
        schema=arrival_schema(plan),
        label=header_name(plan.label),
        inputs=1,
        fields=fields_of(plan.channel, plan.label),
        blocks=plan.has_blocks,
    )
    topics, count = {}, round(RECORDS_SECOND * span)
    seed = rng.randrange(10**6)
    fails = random.Random(seed).random() < FAILING
    if fails:
        rules = replace(rules, gap=Fail(round(span * 300)))
        plan = replace(plan, rules=rules)
    for each in history(seed, rules.labels, count, own=0.05 if ops else 0, answers=0.4 * asks):
        headers = [(h["key"], h["value"]) for h in each["headers"] or ()]
        if rules.pass_unlabelled and rng.random() < UNLABELLED:
            headers = [pair for pair in headers if pair[0] != "label"]
        place = ("commands", 0) if each["topic"] else ("in", sum(each["key"] or b"") % 2)
        value, is_message = each["value"], not each["topic"] and "op" not in dict(headers)
        if is_message and rng.random() < LARGE_SHARE:
            value += rng.randbytes(LARGE_BYTES // 2) * 2
        if by_schema and is_message:
            label = int(dict(headers).get("label", b"0"))
            value = registry.framed(rng, label, value)
            headers = [pair for pair in headers if pair[0] != "label"]
        topics.setdefault(place, []).append((each["key"], value, headers))
    sends = sends_of(rng, span, topics)
    changes = rng.random() < 0.3
    settings = channel_settings(plan, changes=changes)
    made = Pipeline(plan, ChannelOperator, making, sends, partial(judged_channels, settings))
    made.settles, made.by_schema = not fails, by_schema
    if changes:
        again = [
            replace(rules, gap=rng.choice([Wait(), Skip(50), Skip(300)]), others=()),
            replace(rules, held_max=FEW, ask_ms=rules.ask_ms and 100),
        ]
        made.others = [replace(plan, rules=each) for each in again]
    return made


def know(pipeline, known):
    """Have the judge of channels read values by the schemas that a registry has at the end."""
    made = pipeline.faults_of
    *others, settings = made.args
    changed = replace(settings, registered=Registered(known))
    pipeline.faults_of = partial(made.func, *others, changed)
