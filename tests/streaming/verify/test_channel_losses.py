"""Losses that look like something else: held, dropped, or rejected for a reason that cannot be."""

from dataclasses import replace

import pytest

from sequencer.custom_labels import CustomLabels
from sequencer.labels import CyclicLabels
from streaming.verify.channel import Material, judge
from tests.streaming.verify.one_channel import SETTINGS, delivered, gap, rejected, sent

DROPS = replace(SETTINGS, drop_duplicates=True)
OCTAL = replace(DROPS, labels=CyclicLabels(8), window=3)


def verdict_on(settings, inputs, out, rejects=(), events=()):
    return judge(settings, Material([*inputs], delivered(*out), [*rejects], [*events]))


def in_turn(*labels):
    return [sent(offset, label) for offset, label in enumerate(labels)]


@pytest.mark.parametrize("epoch", [None, 1])
def test_what_lies_behind_an_announced_gap_does_not_wait(epoch):
    inputs = [sent(0, 0, epoch), sent(1, 2, epoch), sent(2, 3, epoch)]
    events = [gap(1, 2, epoch=epoch or 0)]
    assert verdict_on(SETTINGS, inputs, inputs, events=events).good
    lost = verdict_on(SETTINGS, inputs, inputs[:1], events=events)
    assert lost.counts == {"lost": 2}


def test_of_copies_one_is_delivered_or_held():
    inputs = in_turn(0, 1, 1)
    right = verdict_on(DROPS, inputs, inputs[:2])
    assert (right.counts, right.looked_at["dropped"]) == ({}, 1)
    assert verdict_on(DROPS, inputs, inputs[:1]).counts == {"lost": 2}

    inputs = in_turn(0, 2, 2)
    right = verdict_on(DROPS, inputs, inputs[:1])
    assert right.good
    assert (right.looked_at["held"], right.looked_at["dropped"]) == (1, 1)
    duplicate = rejected(inputs[2], "duplicate", after=0)
    assert verdict_on(SETTINGS, inputs, inputs[:1], [duplicate]).good
    assert verdict_on(SETTINGS, inputs, inputs[:1]).counts == {"lost": 1}


def test_the_next_label_of_a_cycle_is_not_dropped():
    inputs = in_turn(0, 1, 2, 3)
    assert verdict_on(OCTAL, inputs, inputs).good
    for count in range(4):
        assert "lost" in verdict_on(OCTAL, inputs, inputs[:count]).counts


def test_a_copy_of_the_turn_before_is_no_label_of_this_one():
    inputs = in_turn(0, 0, 1, 2, 3, 4, 5, 6, 7, 1, 2)
    right = verdict_on(OCTAL, inputs, [inputs[0], *inputs[2:9]])
    assert right.good, right.faults
    assert (right.looked_at["held"], right.looked_at["dropped"]) == (2, 1)


def test_what_came_beyond_the_window_of_a_cycle_may_be_dropped():
    """Label 5 is beyond the window as 1 is missing; then 1 is given up, and 5 is missing itself."""
    inputs = in_turn(0, 2, 3, 4, 5, 6)
    right = verdict_on(OCTAL, inputs, [inputs[0], *inputs[1:4]], events=[gap(1, 2)])
    assert right.good, right.faults


def test_a_copy_may_be_dropped_whose_other_one_waits_until_a_fin_rejects_it():
    inputs = [*in_turn(0, 2, 2), sent(3, 1, fin=True)]
    rejects = [rejected(inputs[1], "after-fin", after=0)]
    right = verdict_on(OCTAL, inputs, [inputs[0], inputs[3]], rejects)
    assert (right.counts, right.looked_at["dropped"]) == ({}, 1)


REJECTED = {
    "the next label, as a duplicate of a copy that is rejected, too": (
        SETTINGS,
        in_turn(0, 1, 1),
        {1: ("duplicate", 0), 2: ("duplicate", 0)},
    ),
    "the next label of a cycle, as a duplicate": (
        OCTAL,
        in_turn(0, 1, 2),
        {2: ("duplicate", 1)},
    ),
    "the only copy of a label of a cycle, as a duplicate": (
        OCTAL,
        in_turn(0, 2),
        {1: ("duplicate", 0)},
    ),
    "the next label, behind more than a window": (
        replace(SETTINGS, window=2),
        in_turn(0, 1, 2, 3, 4),
        {4: ("outside-window", 3)},
    ),
    "a label within the window": (
        replace(SETTINGS, window=2),
        in_turn(0, 1, 2, 4),
        {3: ("outside-window", 2)},
    ),
    "a label of a cycle, which has no outside": (OCTAL, in_turn(0, 6), {1: ("outside-window", 0)}),
    "the next label, though the buffer may have been full": (
        replace(SETTINGS, held_max=1),
        in_turn(0, 1, 2, 3),
        {3: ("buffer-full", 2)},
    ),
    "the first label, though the buffer may have been full": (
        replace(SETTINGS, held_max=0),
        in_turn(0),
        {0: ("buffer-full", None)},
    ),
    "before the higher epoch came": (
        SETTINGS,
        [sent(0, 0), sent(1, 1), sent(2, 0, 1)],
        {1: ("stale-epoch", 0)},
    ),
    "as if a rejected record had begun an epoch": (
        SETTINGS,
        [sent(0, 0), sent(1, 99, 1), sent(2, 1)],
        {1: ("outside-window", 0), 2: ("stale-epoch", 0)},
    ),
    "as if a rejected record had a FIN": (
        SETTINGS,
        [sent(0, 0), sent(1, 0, fin=True), sent(2, 1)],
        {1: ("duplicate", 0), 2: ("after-fin", 0)},
    ),
    "as a duplicate in an epoch that is over": (
        SETTINGS,
        [sent(0, 0), sent(1, 0, 1), sent(2, 0)],
        {2: ("duplicate", 1)},
    ),
}


@pytest.mark.parametrize("what", REJECTED)
def test_a_delivery_cannot_become_a_reject(what):
    settings, inputs, reasons = REJECTED[what]
    settings = replace(settings, drop_duplicates=False)
    rejects = [rejected(inputs[at], *said) for at, said in reasons.items()]
    out = [each for at, each in enumerate(inputs) if at not in reasons]
    assert {"wrong-reason"} == {*verdict_on(settings, inputs, out, rejects).counts}


def test_right_reasons_are_right():
    wide = replace(SETTINGS, window=2, held_max=1)
    inputs = [sent(0, 0), sent(1, 4), sent(2, 2), sent(3, 2), sent(4, 3), sent(5, 0, 1), sent(6, 1)]
    reasons = {1: "outside-window", 3: "duplicate", 4: "buffer-full"}
    rejects = [rejected(inputs[at], reason, after=0) for at, reason in reasons.items()]
    rejects.append(rejected(inputs[6], "stale-epoch", after=2))
    out = [inputs[0], inputs[2], inputs[5]]
    verdict = verdict_on(wide, inputs, out, rejects, [gap(1, 2, "epoch")])
    assert verdict.good, verdict.faults


@pytest.mark.parametrize("epoch", [(), (("epoch", b"e"),)])
def test_a_label_of_a_custom_sequence_may_be_too_far_away(epoch):
    """Whatever its epoch is."""
    labels = CustomLabels("0", lambda label: str(int(label) + 1))
    settings = replace(SETTINGS, labels=labels)
    inputs = [sent(0, 0), sent(1, 5_000)]
    inputs[1] = replace(inputs[1], headers=(*inputs[1].headers, *epoch))
    rejects = [rejected(inputs[1], "bad-label", 0)]
    assert verdict_on(settings, inputs, inputs[:1], rejects).counts == {}
