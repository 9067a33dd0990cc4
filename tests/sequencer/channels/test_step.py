"""The vectorised step against the naive model; any split into batches gives the same result."""

import time
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.channels import (
    WAIT,
    Arrivals,
    ChannelCommand,
    Fail,
    Full,
    GapFailure,
    Op,
    Rules,
    ShardState,
    Skip,
    step,
)
from sequencer.channels.plain import Channel
from sequencer.channels.rules import SKIPPED_RANGES_MAX
from sequencer.custom_labels import CustomLabels
from sequencer.labels import CyclicLabels, LinearLabels
from tests.seeds import examples
from tests.sequencer.channels.histories import Runner, any_split, batches, follow, judge, timeless
from tests.sequencer.channels.model import NaiveChannels
from tests.sequencer.channels.strategies import as_command, commands, numeric_place, stories


@settings(max_examples=examples(200), deadline=None)
@given(stories())
def test_agrees_with_the_naive_model(story):
    rules, model, *_ = story
    runner = Runner(rules)
    for now, records in batches(story):
        follow(runner, model, now, records)


@settings(max_examples=examples(150), deadline=None)
@given(stories(keys=(b"a", b"b\xff"), pauses=(0, 0, 7, 30)), st.data())
def test_commands_agree_with_the_naive_model(story, data):
    rules, model, *_ = story
    runner = Runner(rules)
    for now, records in batches(story):
        asked = [as_command(rules.labels, each) for each in data.draw(commands())]
        follow(runner, model, now, records, asked)


@settings(max_examples=examples(100), deadline=None)
@given(stories(keys=(b"a", b"b\xff"), pauses=(0, 0, 7, 30)), st.data())
def test_any_split_of_commands_and_records_into_batches_gives_the_same(story, data):
    """A batch's commands come before its records; the parts go one at a time, in that order."""
    rules, _, rows, bounds, _ = story
    rules = timeless(rules)
    whole, single = Runner(rules), Runner(rules)
    for first, stop in pairwise(bounds):
        given = [as_command(rules.labels, each) for each in data.draw(commands())]
        whole.batch(7, rows[first:stop], given)
        for command in given:
            single.batch(7, [], [command])
        for record in rows[first:stop]:
            single.batch(7, [record])
        assert single.answers == whole.answers
        assert single.passed == whole.passed
        for name in ("out", "rejects", "gaps", "others", "held"):
            assert sorted(getattr(single, name)) == sorted(getattr(whole, name))
        assert single.places == whole.places


def test_a_channel_that_is_reset_when_it_began_comes_back_under_a_higher_incarnation():
    runner = Runner(Rules(LinearLabels()))
    for _ in range(3):
        reset = [ChannelCommand(Op.RESET, b"a")]
        runner.batch(7, [(0, b"a", b"0", None, False)], reset if runner.out else [])
    assert [(sequence, born) for _, sequence, _, born in runner.out] == [(0, 7), (0, 8), (0, 9)]


def test_commands_at_and_beyond_the_limits():
    runner = Runner(Rules(LinearLabels(start=10)))
    runner.batch(7, [(0, b"a", b"10", None, False), (1, b"a", b"13", None, True)])

    def answers(*given):
        runner.answers = []
        runner.batch(8, [], [ChannelCommand(op, b"a", label=label) for op, label in given])
        return runner.answers

    assert answers((Op.SEED, b"11"), (Op.SEED, b"10")) == [(0, 0, "not-ahead")] * 2
    assert answers((Op.SEED, b"14"), (Op.SEED, b"9")) == [(0, 0, "after-fin"), (0, 0, "bad-label")]
    assert answers((Op.SKIP, b"%d" % (2**62 + 11))) == [(0, 0, "bad-label")]
    assert answers((Op.SKIP, b"999"), (Op.SKIP, b"999")) == [(1, 2, None), (0, 0, None)]
    assert runner.gaps == [(b"a", 0, 1, 3, 1, "operator")]
    farthest = [ChannelCommand(Op.SEED, b"b", label=b"%d" % (2**62 + 10))]
    runner.batch(9, [(2, b"b", b"%d" % (2**62 + 10), None, False)], farthest)
    assert runner.out[-1] == (b"b", 0, 2, 9)


@settings(max_examples=examples(100), deadline=None)
@given(stories())
def test_any_split_into_batches_gives_the_same(story):
    rules, _, rows, bounds, _ = story
    any_split(partial(Runner, timeless(rules)), rows, bounds)


@pytest.mark.parametrize("seed", range(8))
def test_large_batches_agree_with_the_naive_model(seed):
    """Disorder windows, duplicates and full buffers at a size where the vectorised way is taken."""
    rng = np.random.default_rng(seed)
    labels = LinearLabels() if seed % 2 else CyclicLabels(256)
    window, held_max = 100, [3, 8, 1000][seed % 3]
    records = []
    for channel in range(12):
        count = 400
        disorder = np.argsort(np.arange(count) + rng.uniform(0, 12, count), kind="stable")
        again = rng.integers(0, count, 10)
        arrival = np.concatenate([np.arange(count), rng.integers(0, count, 10)]) + 0.5
        for p, at in zip(np.concatenate([disorder, again]).tolist(), arrival.tolist(), strict=True):
            records.append((at, f"k{channel}".encode(), str(labels.at(p)).encode()))
    passes = seed > 3
    for at in rng.uniform(0, 400, 2000 * passes).tolist():  # some channels have no others
        records += [(at, b"k%d" % rng.integers(0, 15), None)]
    order = sorted(range(len(records)), key=lambda i: (records[i][0], records[i][1]))
    rows = [(n, records[i][1], records[i][2], None, False) for n, i in enumerate(order)]
    rules = Rules(labels, held_max=held_max, window=window, pass_unlabelled=passes)
    model = NaiveChannels(
        cycle=labels.cycle,
        to_place=numeric_place(labels, 0, 1, 256 if labels.cycle else None),
        window=window,
        held_max=held_max,
        full="reject",
        gap_after=None,
        retire_after=10**9,
    )
    model.passes = passes
    runner = Runner(rules)
    for first in range(0, len(rows), 1700):
        for record in rows[first : first + 1700]:
            model.take(5, record)
        runner.batch(5, rows[first : first + 1700])
    judge(runner, model)


def test_channels_that_mix_both_kinds_do_not_take_the_plain_step(monkeypatch):
    """A record without a label makes no channel unusual, nor does it reorder labels."""
    monkeypatch.setattr(Channel, "arrive", None)
    monkeypatch.setattr(Channel, "pass_on", None)
    runner = Runner(Rules(LinearLabels(), pass_unlabelled=True))
    labels = [b"1", None, b"0", None, b"2", b"4", None]
    runner.batch(5, [(n, b"k", label, None, False) for n, label in enumerate(labels)])
    runner.batch(6, [(7 + n, b"p", None, b"no number", True) for n in range(3)])
    runner.batch(7, [(10, b"k", None, None, False), (11, b"k", b"3", None, False)])
    rows = [row for _, _, row, _ in runner.out]
    assert rows == [1, 2, 0, 3, 4, 6, 7, 8, 9, 10, 11, 5]
    assert [n for key, n, _, _ in runner.out if key == b"k"] == list(range(9))
    assert runner.passed == 7


def test_channels_that_settle_do_not_take_the_plain_step(monkeypatch):
    """Only where they begin, once each."""
    runner = Runner(Rules(LinearLabels(), settle_ms=10))
    monkeypatch.setattr(Channel, "arrive", None)
    runner.batch(5, [(0, b"k", b"107", None, False), (1, b"k", b"105", None, False)])
    runner.batch(9, [(2, b"k", b"105", None, False), (3, b"k", b"103", None, False)])
    assert (runner.out, runner.rejects) == ([], [(2, "duplicate")])
    assert runner.state.due_ms(runner.rules) == 15
    runner.batch(14, [(4, b"k", b"106", None, False), (5, b"new", b"9", None, False)])
    runner.batch(15, [])
    assert [row for _, _, row, _ in runner.out] == [3]
    assert runner.others == [("started", b"k", 0, 103)]
    runner.batch(16, [(6, b"k", b"104", None, False)])
    assert [row for _, _, row, _ in runner.out] == [3, 6, 1, 4, 0]
    monkeypatch.undo()
    runner.batch(17, [(7, b"k", b"102", None, False), (8, b"k", b"103", None, False)])
    assert runner.rejects[1:] == [(7, "late"), (8, "duplicate")]


def test_a_seed_begins_a_channel_that_settles():
    runner = Runner(Rules(LinearLabels(), settle_ms=1000))
    runner.batch(5, [(n, b"k", b"%d" % label, None, False) for n, label in enumerate((9, 7))])

    def answer(op, key, label=None, *, dry_run=False):
        runner.answers = []
        runner.batch(6, [], [ChannelCommand(op, key, label=label, dry_run=dry_run)])
        return runner.answers[0]

    assert answer(Op.SEED, b"k", b"9", dry_run=True) == (1, 1, None)
    assert (runner.others, runner.out) == ([], [])
    assert answer(Op.SEED, b"k", b"6") == (1, 0, None), "below all that is held"
    assert runner.others == [("started", b"k", 0, 6)]
    assert answer(Op.SEED, b"new", b"100") == (1, 0, None), "what lies before is nobody's"
    runner.batch(7, [(2, b"new", b"100", None, False), (3, b"k", b"6", None, False)])
    assert [row for key, _, row, _ in runner.out if key == b"k"] == [3, 1]
    assert [row for key, _, row, _ in runner.out if key == b"new"] == [2]
    assert runner.gaps == []
    runner.batch(7, [(4, b"more", b"5", None, False), (5, b"more", b"3", None, False)])
    assert answer(Op.SKIP, b"more") == (1, 0, None)
    assert runner.others[-1] == ("started", b"more", 0, 3)


def test_a_channel_that_settles_takes_labels_at_both_ends():
    """All but the last number, behind which no frontier could be."""
    last = 2**63 - 1
    runner = Runner(Rules(LinearLabels(), settle_ms=10))
    runner.batch(5, [(n, b"k%d" % n, b"%d" % (last - 1), None, False) for n in range(3)])
    runner.batch(6, [(3 + n, b"k%d" % n, b"0", None, False) for n in range(2)])
    runner.batch(7, [(5 + n, b"k%d" % n, b"%d" % last, None, True) for n in range(4)])
    assert runner.rejects == [(5 + n, "bad-label") for n in range(4)]
    runner.batch(50, [(9, b"k2", b"%d" % last, None, False)])
    assert sorted(row for _, _, row, _ in runner.out) == [2, 3, 4]
    assert runner.state.frontier.tolist() == [1, 1, last]
    assert runner.rejects[4:] == [(9, "bad-label")]


def test_gap_policy_fail_names_the_channel_and_changes_nothing():
    rules = Rules(LinearLabels(), gap=Fail(10))
    runner = Runner(rules)
    runner.batch(100, [(0, b"a", b"3", None, False)])
    before = runner.state
    runner.batch(109, [])
    with pytest.raises(GapFailure) as failure:
        step(runner.state, empty(), 110, rules)
    assert (failure.value.channel, failure.value.first, failure.value.waited_ms) == (b"a", 0, 10)
    assert before.held.position.tolist() == runner.state.held.position.tolist() == [3]


def test_time_never_runs_backwards():
    rules = Rules(LinearLabels(), retire_after_ms=50)
    runner = Runner(rules)
    runner.batch(1000, [(0, b"a", b"0", None, False)])
    runner.batch(1060, [])
    assert runner.others == [("retired", b"a", 1)]
    runner.batch(900, [(1, b"a", b"0", None, False)])
    assert runner.out[-1] == (b"a", 0, 1, 1060), "the incarnation grows though the clock went back"


def test_due_time_is_when_something_would_change():
    rules = Rules(LinearLabels(), gap=Skip(30), retire_after_ms=500)
    runner = Runner(rules)
    runner.batch(100, [(0, b"a", b"1", None, False), (1, b"b", b"0", None, False)])
    assert runner.state.due_ms(rules) == 130
    assert runner.state.due_ms(replace(rules, gap=WAIT)) == 600, "only the idle channel retires"
    runner.batch(129, [])
    assert not runner.gaps
    runner.batch(130, [])
    assert runner.gaps == [(b"a", 0, 0, 1, 30, "timeout")]
    assert runner.state.due_ms(rules) == 600


def empty():
    none = pa.array([], pa.binary())
    return Arrivals(none, none, none, np.zeros(0, dtype=bool))


@pytest.mark.parametrize("size", [5_000, 700, 1])
def test_custom_labels_far_ahead_of_the_batch_before(size):
    """One batch reaches farther than a sequence is searched ahead of one label."""
    rules = Rules(CustomLabels("L0", lambda text: f"L{int(text[1:]) + 1}"), window=8)
    count = 5_000 if size > 1 else 1_500
    rows = [(n, b"k", b"L%d" % n, None, False) for n in range(count)]
    rows.append((count, b"k", b"L%d" % (count + rules.search), None, False))
    runner = Runner(rules)
    for first in range(0, len(rows), size):
        runner.batch(5, rows[first : first + size])
    assert [row for _, _, row, _ in runner.out] == list(range(count))
    assert runner.rejects == [(count, "bad-label")]


def test_a_given_up_label_never_counts_as_a_duplicate():
    """However many ranges there are; what lies between forgotten ones may count as late, too."""
    rules = Rules(LinearLabels(), held_max=1, full=Full.SKIP)
    runner = Runner(rules)
    count = 2 * SKIPPED_RANGES_MAX
    runner.batch(5, [(n, b"k", b"%d" % (2 * n + 1), None, False) for n in range(count)])
    given_up = range(0, 2 * count - 3, 2)
    runner.batch(6, [(1000 + n, b"k", b"%d" % n, None, False) for n in given_up])
    assert runner.rejects == [(1000 + n, "late") for n in given_up]
    runner.batch(7, [(5000, b"k", b"%d" % (2 * count - 5), None, False)])
    assert runner.rejects[-1] == (5000, "duplicate")
    named = [runner.places[1000 + n][1] for n in given_up]
    forgotten = len(named) - SKIPPED_RANGES_MAX + 1
    assert named[:forgotten] == [None] * forgotten, "which gap it was of is forgotten"
    assert named[forgotten:] == [(b"k", 5, 0, n) for n in given_up[forgotten:]]


@pytest.mark.parametrize("way", ["timeout", "epoch", "operator", "overflow"])
def test_the_time_for_many_gaps_does_not_grow_with_their_square(way):
    """Such as those of a sender that counts in steps of two."""
    count = 20_000
    full = Full.SKIP if way == "overflow" else Full.REJECT
    runner = Runner(Rules(LinearLabels(), gap=Skip(50), held_max=count, full=full))
    runner.batch(5, [(n, b"k", b"%d" % (2 * n + 1), None, False) for n in range(count)])
    more = [(count + n, b"k", b"%d" % (2 * (count + n) + 1), None, False) for n in range(count)]
    to = b"%d" % (2 * count)
    batch = {
        "timeout": (60, []),
        "epoch": (6, [(count, b"k", b"0", b"1", False)]),
        "operator": (6, [], [ChannelCommand(Op.SKIP, b"k", label=to)]),
        "overflow": (6, more),
    }[way]
    began_s = time.process_time()
    runner.batch(*batch)
    assert time.process_time() - began_s < 30, "with the square it is 70 to 160 s"
    assert [row for _, _, row, _ in runner.out][:count] == list(range(count))
    assert [gap[-1] for gap in runner.gaps] == [way] * count


def test_the_five_rows_of_the_picture():
    """That of `sequencer.channels.usual`."""

    def arrivals(*messages):
        channels, labels = (pa.array(column, pa.binary()) for column in zip(*messages, strict=True))
        count = len(messages)
        return Arrivals(channels, labels, pa.nulls(count, pa.binary()), np.zeros(count, np.bool_))

    rules = Rules(LinearLabels())
    first = arrivals(*((b"a", b"%d" % label) for label in (0, 1, 2, 3, 6)))
    before = step(ShardState.empty(), first, 1000, rules).state
    batch = arrivals((b"b", b"0"), (b"a", b"5"), (b"a", b"4"), (b"a", b"6"))
    outcome = step(before, batch, 2000, rules)
    assert outcome.delivered.row.tolist() == [3, 2, 0, 1]
    assert outcome.rejected.row.tolist() == [4]
    assert outcome.state.frontier.tolist() == [7, 1]
    later = step(before, arrivals((b"b", b"0"), (b"a", b"5"), (b"a", b"6")), 2000, rules)
    assert later.held_row.tolist() == [2, 0]


def test_what_a_process_has_walked_before_decides_nothing():
    """A batch that is repeated elsewhere finds no label of a custom sequence that lies too far."""
    found = []
    for walked in (0, 150_000):
        labels = CustomLabels("0", lambda label: str(int(label) + 1))
        labels.at(walked)
        rules = Rules(labels, window=1_000, retire_after_ms=10_000)
        state = step(ShardState.empty(), of_rows([(b"a", b"0", None)]), 1_000, rules).state
        far = of_rows([(b"a", b"150000", b"no epoch"), (b"a", b"150000", None)])
        outcome = step(state, far, 2_000, rules)
        found.append((outcome.rejected.reason.tolist(), outcome.state.active_ms.tolist()))
    assert found[0] == found[1]


def of_rows(rows):
    columns = [pa.array(column, pa.binary()) for column in zip(*rows, strict=True)]
    return Arrivals(*columns, np.zeros(len(rows), np.bool_))
