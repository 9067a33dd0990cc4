"""Who waits: told only when it changed, and what was told last is always how it is."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sequencer.channels import Arrivals, ChannelCommand, Op, Rules, ShardState, Skip, step
from sequencer.labels import LinearLabels
from streaming.disciplines.channels import waiting
from streaming.disciplines.channels.waiting import (
    KEYS_BYTES_MAX,
    describe_waiting,
    waiting_report,
    whole_waiting,
)
from streaming.disciplines.discipline import LISTED_MAX, listed_in

LABELS = LinearLabels(start=100)


def arrivals(rows):
    """Rows are (key, place)."""
    keys = pa.array([key for key, _ in rows], pa.binary())
    labels = pa.array([b"%d" % LABELS.at(place) for _, place in rows], pa.binary())
    return Arrivals(keys, labels, pa.nulls(len(rows), pa.binary()), np.zeros(len(rows), bool))


def as_it_is(state):
    """The list, worked out one channel after the other."""
    held = state.held
    found = []
    for row, key in enumerate(state.keys.to_pylist()):
        mine = [at for at in range(len(held)) if held.channel[at] == row]
        if mine:
            since = min(int(held.since_ms[at]) for at in mine)
            found.append((since, key, LABELS.at(int(state.frontier[row])), len(mine)))
    return [(key.decode(), label, count) for _, key, label, count in sorted(found)]


@pytest.mark.parametrize("seed", range(8))
def test_what_was_told_last_is_how_it_is(seed):
    rng = random.Random(seed)
    rules = Rules(LABELS, gap=Skip(500))
    state, told, changes = ShardState.empty(), None, 0
    for batch in range(60):
        rows = [
            (b"k%d" % rng.randrange(5), batch // 6 + rng.randrange(3))
            for _ in range(rng.randrange(4))
        ]
        commands = [ChannelCommand(Op.RESET, b"k0")] if rng.random() < 0.1 else []
        after = step(state, arrivals(rows), 1000 + 40 * batch, rules, commands).state
        text = waiting_report(state, after)
        changes += text is not None
        told = told if text is None else text
        listed = [] if told is None else describe_waiting([told], Rules(LABELS))
        assert [(e["channel"], e["next"], e["held"]) for e in listed] == as_it_is(after)
        assert waiting_report(after, after) is None
        state = after
    assert 10 < changes < 60


def test_how_often_a_channel_was_asked_for_and_when_it_is_next():
    rules = Rules(LABELS, ask_ms=100)
    state, told = ShardState.empty(), []
    for now, rows in ((1000, [(b"k", 3)]), (1050, []), (1100, []), (1150, []), (1200, [])):
        after = step(state, arrivals(rows), now, rules).state
        text = waiting_report(state, after)
        if text is not None:
            (one,) = describe_waiting([text], rules)
            told.append((one["asked"], one["ask_next"][17:-1]))
        state = after
    assert told == [(0, "01.100"), (1, "01.200"), (2, "01.400")]
    assert "asked" not in describe_waiting([text], Rules(LABELS))[0]


def test_the_longest_are_told_where_they_are_too_many(monkeypatch):
    monkeypatch.setattr(waiting, "LISTED_MAX", 3)
    rules = Rules(LABELS)
    state, told = ShardState.empty(), None
    for batch in range(6):
        after = step(state, arrivals([(b"k%d" % (5 - batch), 2)]), 1000 + batch, rules).state
        told = waiting_report(state, after) or told
        state = after
    listed = describe_waiting([told], Rules(LABELS))
    assert [each["channel"] for each in listed] == ["k5", "k4", "k3"]
    every = describe_waiting([whole_waiting(state)], Rules(LABELS))
    assert [each["channel"] for each in every] == ["k5", "k4", "k3", "k2", "k1", "k0"]
    assert every[:4] == describe_waiting([whole_waiting(state, 4)], Rules(LABELS))
    assert listed[0] == {
        "channel": "k5",
        "epoch": 0,
        "next": 100,
        "since": "1970-01-01T00:00:01.000Z",
        "held": 1,
    }


def test_large_keys_make_a_report_shorter_which_says_so():
    """All of them in one text for each batch, through the JVM, was too much for it."""
    rules, large = Rules(LABELS), KEYS_BYTES_MAX // 2
    keys = [b"%d" % n * large for n in range(4)]
    state = step(ShardState.empty(), arrivals([(key, 2) for key in keys]), 1000, rules).state
    report = waiting_report(ShardState.empty(), state)
    listed = describe_waiting([report], rules)
    assert [each["channel"][0] for each in listed] == ["0", "1", "2"], (
        "the first and 1 MB behind it"
    )
    assert listed_in([report]) == 3
    assert listed_in([whole_waiting(state)]) == LISTED_MAX
    assert len(describe_waiting([whole_waiting(state)], rules)) == 4


def test_who_waits_is_listed_with_the_rule_of_the_channel():
    own = Rules(LABELS)
    rules = replace(own, others=(("vip.*", own), ("?", own)))
    after = step(
        ShardState.empty(), arrivals([(b"vip.a", 2), (b"k", 2), (b"kk", 2)]), 5, rules
    ).state
    listed = describe_waiting([waiting_report(ShardState.empty(), after)], rules)
    assert [(each["channel"], each["rule"]) for each in listed] == [
        ("k", "?"),
        ("kk", None),
        ("vip.a", "vip.*"),
    ]
