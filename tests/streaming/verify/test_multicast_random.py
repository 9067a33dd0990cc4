# ruff: noqa: ARG001  (all mutations take the same arguments)
"""Random histories of multicasts: right ones pass, also on their way; no mutation does."""

import random
from dataclasses import replace

import pytest

from streaming.verify.accounts import Settings
from streaming.verify.multicast import judge
from tests.streaming.verify.multicast_worlds import random_multicasts
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
from tests.streaming.verify.plants import Lists, append, drop, swap, with_header
from tests.streaming.verify.worlds import material_for, settings_for


@pytest.mark.parametrize("seed", range(25))
def test_what_is_on_its_way_is_held_and_no_fault(seed):
    rng = random.Random(seed)
    world = random_multicasts(seed, order=rng.choice(["batch", "clock", "counter"]))
    m = Lists.of(material_for(world))
    whole = len(m.outputs)
    cut_short(rng, m)
    verdict = judge(settings_for(Settings, world, due={}), m.material())
    assert verdict.good, verdict.faults[:3]
    assert (len(m.outputs) == whole) or verdict.looked_at["held"] > 0
    later = judge(settings_for(Settings, world), m.material())
    assert set(later.counts) <= {"unfinished", "unanswered", "missing-event"}


def message(record):
    return tuple(record.header(name) for name in ("timestamp", "from"))


def swap_two(rng, m, at, record, others):
    mine = [n for n in m.of_key(record.key) if message(m.outputs[n]) != message(record)]
    if not mine:
        return None
    swap(m.outputs, at, rng.choice(mine))
    return {"stamp-order"}


def lose(rng, m, at, record, others):
    drop(m.outputs, at)
    return {"missing-delivery", "unfinished", "lost", "missing-event"}


def stranger(rng, m, at, record, others):
    strangers = sorted({r.key for r in m.outputs} - {record.key})
    if not strangers:
        return None
    other = rng.choice(strangers)
    destination = rng.choice([other, record.header("destination")])
    append(m.outputs, with_header(record, "destination", destination), other)
    return {"membership", "delivered-twice"}


def other_bytes(rng, m, at, record, others):
    m.outputs[at] = changed(rng, record, "to", b"p9")
    return {"two-contents", "invented"}


def other_sender(rng, m, at, record, others):
    m.outputs[at] = with_header(record, "from", b"somebody")
    return {"invented"}


def other_timestamp(rng, m, at, record, others):
    if not others:
        return None
    m.outputs[at] = with_header(record, "timestamp", b"%d" % (int(message(record)[0]) + 1000))
    return {"delivered-twice"}


def other_destination(rng, m, at, record, others):
    m.outputs[at] = with_header(record, "destination", rng.choice([b"p9", b"@nope", b"@"]))
    return {"membership"}


def handles_moved(rng, m, at, record, others):
    """A valid handle is told to be none, or the other way round."""
    names = [name for name, _ in record.headers[-4:]]
    if "handles" not in names:
        return None
    valid = record.header("handles")
    if "handles-invalid" in names:
        wrong = b",".join(filter(None, [valid, record.header("handles-invalid")]))
        m.outputs[at] = with_header(record, "handles", wrong)
        return {"wrong-handles"}
    if not valid:
        return None
    headers = with_header(record, "handles", b"").headers
    added = ("handles-invalid", valid)
    m.outputs[at] = replace(record, headers=(*headers[:-2], added, *headers[-2:]))
    return {"wrong-handles"}


def event(rng, m, at, record, others):
    if not m.events:
        return None
    at = rng.randrange(len(m.events))
    if rng.random() < 0.5:
        m.events.append(m.events[at])
        return {"event-repeat"}
    gone = m.events.pop(at)
    # Without the answer to a destruction nobody knows what came after it.
    return {"missing-event", "unfinished"} if b'"undelivered"' in gone.value else {"unanswered"}


def notice_gone(rng, m, at, record, others):
    found = [n for n, each in enumerate(m.outputs) if each.headers[-3][0] == "notice"]
    if not found:
        return None
    at = rng.choice(found)
    if rng.random() < 0.5:
        drop(m.outputs, at)
        return {"missing-notice", "unfinished"}
    m.outputs[at] = with_header(m.outputs[at], "notice", b"n99")
    return {"wrong-notice", "two-contents"}


def told_of_a_node(rng, m, at, record, others):
    """A delivery becomes the notice of a destruction that no command asked for."""
    added = [each for each in record.headers[-8:] if each[0] in ("from", "destination")][-2:]
    end = [("timestamp", message(record)[0]), ("notice", b"n1"), *record.headers[-2:]]
    headers = (added[0], ("destination", record.key), *end)
    m.outputs[at] = replace(record, value=None, headers=headers)
    return {"wrong-notice", "two-contents", "missing-delivery"}


KINDS = [
    notice_gone,
    told_of_a_node,
    swap_two,
    lose,
    lose_as_it_is,
    again,
    repeat,
    stranger,
    other_bytes,
    other_sender,
    other_timestamp,
    other_destination,
    other_sequence,
    handles_moved,
    reject,
    event,
    moved,
]


def found_in(seed):
    rng = random.Random(seed)
    order = rng.choice(["batch", "clock", "counter"])
    world = random_multicasts(seed, steps=rng.choice([10, 40, 80]), order=order)
    m = Lists.of(material_for(world))
    messages = [n for n, each in enumerate(m.outputs) if each.headers[-3][0] != "notice"]
    kind, names = mutate(rng, m, KINDS, message, messages)
    if names is None:
        return False
    verdict = judge(settings_for(Settings, world), m.material())
    assert_found(names, verdict, (seed, kind))
    return True


def test_every_mutation_is_found():
    assert sum(map(found_in, range(150))) > 100


@pytest.mark.slow
def test_every_mutation_is_found_in_many_histories():
    assert sum(map(found_in, range(1000, 11_000))) > 7000
