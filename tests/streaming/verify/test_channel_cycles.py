"""The judge of cyclic labels: gaps that together reach far, turns, and faults among them."""

import json
import random
from dataclasses import replace
from itertools import count

import pytest

from sequencer.channels import WAIT, Rules, Skip
from sequencer.labels import CyclicLabels
from streaming.verify.channel import judge
from tests.seeds import seeds
from tests.streaming.disciplines.channels.plans import plan
from tests.streaming.verify.channel_stories import story
from tests.streaming.verify.channel_worlds import World, batches, history

OCTAL = CyclicLabels(8)


def world(*steps, gap=WAIT, **more):
    """Each step a batch of its own: a number is a record with that label, else a command's JSON.

    The commands are to channel `a`, and every record is of it.
    """
    given, places = [], [0, 0]
    for n, step in enumerate(steps):
        topic = int(not isinstance(step, int))
        record = {"topic": topic, "partition": 0, "offset": places[topic], "timestamp": n}
        places[topic] += 1
        if topic:
            value = json.dumps({"channel": "a", **step}).encode()
            record |= {"key": None, "value": value, "headers": None}
        else:
            headers = [{"key": "label", "value": b"%d" % step}]
            record |= {"key": b"a", "value": b"v%d" % n, "headers": headers}
        given.append((1000 + 10 * n, [record]))
    rules = Rules(OCTAL, gap=gap, window=3, **more)
    return World(plan(rules), [*given, (2000, [])])


def seed(label):
    return {"op": "seed", "label": label}


def skip(**fields):
    return {"op": "skip", **fields}


def not_coming(first, stop):
    return {"epoch": 0, "from": first, "to": stop, "not_coming": True}


def found(it, material=None):
    return judge(it.settings(), material or it.material())


SEEDED = (0, seed(3), seed(6), 6, 7)
"""As an operator did it: gaps of labels 1 and 2, then of 3 to 5."""
TURN = (0, seed(3), seed(6), seed(1), 1, 2)
"""A whole turn is given up."""


@pytest.mark.parametrize(
    ("steps", "labels"),
    [
        (SEEDED, [0, 6, 7]),
        (TURN, [0, 1, 2]),
        ((*TURN, 3, seed(6), seed(1), seed(4), 4, 5), [0, 1, 2, 3, 4, 5]),
        ((seed(7), seed(2), 2, 3), [2, 3]),
        ((0, skip(to=3), skip(to=6), skip(to=7), 7), [0, 7]),
        ((0, seed(3), 5, skip(), seed(1), 1), [0, 5, 1]),
        ((0, seed(2), 5, not_coming(2, 5), seed(1), 1), [0, 5, 1]),
        ((0, 1, 2, 3, 4, 5, 1, not_coming(6, 1)), [0, 1, 2, 3, 4, 5, 1]),
    ],
)
def test_announced_gaps_may_reach_beyond_half_a_cycle(steps, labels):
    it = world(*steps)
    out = [int(each.header("label")) for each in it.topics["out"]]
    assert out == labels, "as it was meant"
    verdict = found(it)
    assert verdict.good, verdict.faults


def test_a_gap_that_times_out_may_follow_another():
    it = world(0, seed(3), 6, 7, gap=Skip(5))
    reasons = {each["reason"] for each in it.material().events if each["event"] == "gap"}
    assert reasons == {"operator", "timeout"}
    verdict = found(it)
    assert verdict.good, verdict.faults


@pytest.mark.parametrize("number", seeds(8, 80))
@pytest.mark.parametrize("notices", [False, True])
def test_what_the_operator_writes_over_many_turns_has_no_fault(number, notices):
    labels = CyclicLabels((8, 7, 16)[number % 3])
    window = (labels.cycle - 1) // 2
    rules = Rules(labels, gap=Skip(15), held_max=4, window=window, ask_ms=3, notices=notices)
    records = history(number, labels, count=150, answers=0.4)
    it = World(plan(rules), batches(records, number))
    verdict = found(it)
    assert verdict.good, verdict.faults[:3]


@pytest.mark.parametrize("number", seeds(8, 60))
@pytest.mark.parametrize("drop", [False, True])
def test_refused_labels_are_gaps_too(number, drop):
    """A record that the output refuses gives its label up; several do so one after the other."""
    labels = CyclicLabels(24)
    settings, material = story(number, labels, window=11, gap_after=8, refuse=True, drop=drop)
    verdict = judge(settings, material)
    assert verdict.good, verdict.faults[:3]


@pytest.mark.parametrize(
    "steps",
    [
        (0, 1, 2, 3, seed(6), seed(1), 1, 4),  # with a delivery behind the gaps
        (0, 1, 2, 3, seed(6), seed(1), 4),  # with none
        (0, seed(3), seed(6), 1),
        (seed(5), 7),  # nothing was ever delivered
        (0, {"op": "reset"}, seed(5), 7),
    ],
)
def test_a_record_behind_gaps_is_held(steps):
    it = world(*steps)
    verdict = found(it)
    assert verdict.good, verdict.faults
    assert verdict.looked_at["held"] == it.totals.held == 1


def label(record, number):
    headers = [(n, b"%d" % number if n == "label" else v) for n, v in record.headers]
    return replace(record, headers=tuple(headers))


def swap(m):
    """The last two deliveries change places, each with right numbers."""
    one, two = m.outputs[-2:]
    m.outputs[-2] = replace(two, offset=one.offset, headers=two.headers[:-2] + one.headers[-2:])
    m.outputs[-1] = replace(one, offset=two.offset, headers=one.headers[:-2] + two.headers[-2:])


def again(m):
    """The last delivery once more, as if it was the next one."""
    last = m.outputs[-1]
    added = (("sequence", b"%d" % len(m.outputs)), last.headers[-1])
    m.outputs.append(
        replace(last, offset=last.offset + 1, headers=(*last.headers[:-2], *added)),
    )


def repeat(m):
    m.outputs.append(replace(m.outputs[-1], offset=m.outputs[-1].offset + 1))


def hide_gap(m):
    del m.events[next(n for n, each in enumerate(m.events) if each["event"] == "gap")]


def deliver_given_up(m):
    m.outputs[1], m.inputs[1] = label(m.outputs[1], 5), label(m.inputs[1], 5)


def other_label(m):
    """The last label is one more: nobody gave up the one before it."""
    number = (int(m.outputs[-1].header("label")) + 1) % 8
    m.outputs[-1], m.inputs[-1] = label(m.outputs[-1], number), label(m.inputs[-1], number)


def lose_late(m):
    """A record of a label that was given up is nowhere."""
    last = m.inputs[-1]
    m.inputs.append(replace(label(last, 4), offset=last.offset + 1, value=b"lost"))


@pytest.mark.parametrize(
    ("steps", "plant", "name"),
    [
        (SEEDED, swap, "disorder"),
        (SEEDED, again, "disorder"),
        (SEEDED, repeat, "repeat"),
        (SEEDED, hide_gap, "disorder"),
        ((0, seed(3), 3), hide_gap, "unannounced-gap"),
        (SEEDED, deliver_given_up, "given-up-delivered"),
        (SEEDED, other_label, "unannounced-gap"),
        ((0, 1, seed(4), 4, 5, 6, 7, 0, 1, 2), other_label, "unannounced-gap"),  # of a turn before
        ((0, 1, seed(4)), lose_late, "lost"),
        (TURN, swap, "disorder"),
        (TURN, again, "disorder"),
        (TURN, other_label, "unannounced-gap"),
    ],
)
def test_faults_among_gaps_are_found(steps, plant, name):
    it = world(*steps)
    material = it.material()
    assert found(it, material).good
    plant(material)
    verdict = found(it, material)
    assert name in verdict.counts, verdict.counts


def test_a_buffer_may_be_full_a_turn_farther_on():
    """Behind label 0 seven are given up: 0 is held in the next turn, and label 1 is behind it."""
    it = world(0, skip(to=4), seed(7), 0, 1, held_max=1)
    (reject,) = it.topics["rejects"]
    assert reject.header("reject-reason") == b"buffer-full"
    assert found(it).good


def test_a_copy_of_an_earlier_life_is_not_lost():
    """Label 1 came twice before the channel was forgotten; then it is the next label again."""
    offsets, given = count(), []
    for now_ms, labels in (1000, (0, 1, 2, 1)), (2000, ()), (3000, (0, 1)):
        records = [
            {"topic": 0, "partition": 0, "offset": offset, "timestamp": now_ms, "key": b"a"}
            | {"value": b"v%d" % offset, "headers": [{"key": "label", "value": b"%d" % label}]}
            for label, offset in zip(labels, offsets, strict=False)
        ]
        given.append((now_ms, records))
    rules = Rules(OCTAL, window=3, drop_duplicates=True, retire_after_ms=500)
    it = World(plan(rules), given)
    settings, material = it.settings(drop_duplicates=True), it.material()
    last = material.outputs.pop()
    assert judge(settings, material).counts == {"lost": 1}, "of this life"
    material.inputs.pop()
    verdict = judge(settings, material)
    assert verdict.good, verdict.faults
    assert verdict.looked_at["dropped"] == 1
    assert last.header("label") == b"1"


def equal(records, seed, cycle, gap=WAIT):
    """Records with one value and one time, in batches; what is of the past is dropped."""
    rng = random.Random(seed)
    rules = Rules(CyclicLabels(cycle), gap=gap, window=(cycle - 1) // 2, drop_duplicates=True)
    given, now_ms, rest = [], 1000, []
    for offset, label in enumerate(records):
        headers = [{"key": "label", "value": b"%d" % label}]
        place = {"topic": 0, "partition": 0, "offset": offset, "timestamp": 1}
        rest.append(place | {"key": b"a", "value": b"v", "headers": headers})
    while rest:
        size = rng.randrange(1, 5)
        given.append((now_ms, rest[:size]))
        rest, now_ms = rest[size:], now_ms + rng.choice([1, 10, 40])
    return World(plan(rules), [*given, (now_ms, [])])


def test_equal_copies_of_two_turns_are_not_confused():
    """The second 1 is dropped: three labels had been delivered since that of its turn was next."""
    it = equal([3, 0, 1, 2, 2, 1, 3, 2, 4, 0], 1, 5)
    verdict = judge(it.settings(drop_duplicates=True), it.material())
    assert verdict.good, verdict.faults
    material = it.material()
    material.outputs.pop()
    assert "lost" in judge(it.settings(drop_duplicates=True), material).counts


@pytest.mark.parametrize("seed", seeds(20, 400))
def test_equal_copies_over_many_turns_have_no_fault(seed):
    rng, cycle, at, records = random.Random(seed), 5 + seed % 4, 0, []
    for _ in range(rng.randrange(3, 40)):
        is_next = rng.random() < 0.7
        records.append(at % cycle if is_next else rng.randrange(cycle))
        at += is_next
    it = equal(records, seed, cycle, Skip(25) if seed % 2 else WAIT)
    verdict = judge(it.settings(drop_duplicates=True), it.material())
    assert verdict.good, (records, verdict.faults[:3])
