# ruff: noqa: ARG001  (all mutations take the same arguments)
"""Random histories of groups: right ones pass, also while they are on their way; no mutation does."""

import json
import random
from dataclasses import replace

import pytest

from streaming.verify.group import GroupSettings, judge
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.mutations import (
    again,
    assert_found,
    changed,
    cut_short,
    lose_as_it_is,
    moved,
    mutate,
    other_sequence,
    reject,
    repeat,
)
from tests.streaming.verify.plants import (
    Lists,
    append,
    drop,
    swap,
    with_header,
)
from tests.streaming.verify.worlds import SUBSCRIBERS, material_for, settings_for


@pytest.mark.parametrize("seed", range(25))
def test_what_is_on_its_way_is_held_and_no_fault(seed):
    rng = random.Random(seed)
    world = random_groups(seed, version_each=seed % 2 == 0, commands=0.1)
    m = Lists.of(material_for(world))
    whole = len(m.outputs)
    cut_short(rng, m)
    settings = settings_for(
        GroupSettings, world, groups=world.configured, due={}, across_groups=True
    )
    verdict = judge(settings, m.material())
    assert verdict.good, verdict.faults[:3]
    assert (len(m.outputs) == whole) or verdict.looked_at["held"] > 0
    later = judge(replace(settings, due=None), m.material())
    assert set(later.counts) <= {"unfinished", "unanswered", "missing-event"}


@pytest.mark.parametrize("seed", range(8))
def test_repeats_are_taken_away_first(seed):
    rng = random.Random(seed)
    world = random_groups(seed)
    m = Lists.of(material_for(world))
    for key in {record.key for record in m.outputs}:
        mine = m.of_key(key)
        first = rng.randrange(len(mine))
        last = rng.randrange(first, len(mine))
        m.outputs[mine[last] + 1 : mine[last] + 1] = [
            m.outputs[at] for at in mine[first : last + 1]
        ]
    m.rejects += m.rejects[-2:]
    m.events += m.events[-2:]
    settings = settings_for(GroupSettings, world, groups=world.configured, repeats_allowed=True)
    assert judge(settings, m.material()).good
    assert "repeat" in judge(replace(settings, repeats_allowed=False), m.material()).counts
    at = rng.randrange(len(m.outputs))
    m.outputs.append(replace(m.outputs[at], value=b"other"))
    assert "rewritten" in judge(settings, m.material()).counts


def message(record):
    return tuple(record.header(name) for name in ("group", "group-version", "group-sequence"))


def swap_two(rng, m, at, record, others):
    """Of one group, or of two that another subscriber got, too."""
    seen = {other.key: {message(r) for r in m.outputs if r.key == other.key} for other in others}
    mine = [
        n
        for n in m.of_key(record.key)
        if n != at
        and (
            m.outputs[n].header("group") == record.header("group")
            or any(message(m.outputs[n]) in some for some in seen.values())
        )
    ]
    if not mine:
        return None
    swap(m.outputs, at, rng.choice(mine))
    return {"group-order", "pairwise-order", "acyclic"}


def lose(rng, m, at, record, others):
    drop(m.outputs, at)
    return {"missing-delivery", "unfinished", "lost"}


def stranger(rng, m, at, record, others):
    got = {record.key, *(other.key for other in others)}
    strangers = sorted({r.key for r in m.outputs} - got)
    if not strangers:
        return None
    append(m.outputs, record, rng.choice(strangers))
    return {"membership", "group-order", "missing-delivery", "unfinished"}


def other_bytes(rng, m, at, record, others):
    m.outputs[at] = changed(rng, record, "sender", b"somebody")
    return {"two-contents", "invented"}


def other_numbers(rng, m, at, record, others):
    if not others:
        return None
    name = rng.choice(["group-version", "group-sequence"])
    value = int(record.header(name)) + 1000
    m.outputs[at] = with_header(record, name, b"%d" % value)
    return {"delivered-twice"}


def other_stamps(rng, m, at, record, others):
    stamps = record.header("stamps")
    if stamps is None:
        return None
    m.outputs[at] = with_header(record, "stamps", stamps.replace(b"]]", b"9]]"))
    return {"stamps-differ"}


def event(rng, m, at, record, others):
    if not m.events:
        return None
    at = rng.randrange(len(m.events))
    if rng.random() < 0.5:
        m.events.append(m.events[at])
        return {"event-repeat"}
    gone = m.events.pop(at)
    if b'"group-moved"' in gone.value:  # of a version that nobody got, nothing shows it
        got = {int(r.header("group-version")) for r in m.outputs if message(r)[0] == gone.key}
        version = json.loads(gone.value)["version"]
        return {"missing-event"} if version in got and min(got) < version else None
    return {"missing-event"} if b'"group-' in gone.value else {"unanswered"}


def input_lost(rng, m, at, record, others):
    same = [n for n, r in enumerate(m.inputs) if r.content == m.inputs[-1].content]
    del m.inputs[same[-1]]
    return {"invented", "delivered-twice", "rejected-and-delivered"}


KINDS = [
    swap_two,
    lose,
    lose_as_it_is,
    again,
    repeat,
    stranger,
    other_bytes,
    other_numbers,
    other_sequence,
    other_stamps,
    reject,
    event,
    input_lost,
    moved,
]


def found_in(seed):
    rng = random.Random(seed)
    steps = rng.choice([10, 30, 60])
    world = random_groups(seed, steps=steps, version_each=seed % 2 == 0, commands=0.07)
    m = Lists.of(material_for(world))
    kind, names = mutate(rng, m, KINDS, message, range(len(m.outputs)))
    if names is None:
        return False
    verdict = judge(settings_for(GroupSettings, world, groups=world.configured), m.material())
    assert_found(names, verdict, (seed, kind))
    return True


def test_every_mutation_is_found():
    assert sum(map(found_in, range(150))) > 100
    assert len(SUBSCRIBERS) == 8


@pytest.mark.slow
def test_every_mutation_is_found_in_many_histories():
    assert sum(map(found_in, range(1000, 11_000))) > 7000
