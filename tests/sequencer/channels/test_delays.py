"""A gap time that sets itself, by the delays of messages, against the naive model."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.channels import Fail, Rules, Skip, delays
from sequencer.channels.delays import BOUNDS, BUCKETS, SAMPLES_MAX, Quantile, no_delays
from sequencer.channels.happened import Buffer, Waiting
from sequencer.labels import LinearLabels
from tests.seeds import examples
from tests.sequencer.channels.histories import Runner, batches, follow
from tests.sequencer.channels.strategies import adapting, stories

BY = [Quantile(0.5, 0, 60), Quantile(0.9, 5, 60), Quantile(0.8, 0, 25)]
LABELS = LinearLabels()


@pytest.fixture
def _few(monkeypatch):
    monkeypatch.setattr(delays, "SAMPLES_MIN", 4)


@settings(max_examples=examples(30), deadline=None)
@given(stories(keys=(b"a", b"a", b"b")), st.data())
def test_agrees_with_the_naive_model(story, data):
    rules, model, *_ = story
    runner = adapting(data, rules, model, BY)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(delays, "SAMPLES_MIN", 4)
        for now, records in batches(story):
            follow(runner, model, now, records)
            assert int(runner.state.delays.sum()) == len(model.delays)


def late_by(runner, waits, channel=b"a"):
    """Label n + 1 comes, and label n so much later."""
    now, label = runner.state.clock_ms + 1, int(runner.state.frontier.max(initial=0))
    for wait in waits:
        runner.batch(now, [(0, channel, b"%d" % (label + 1), None, False)])
        now += wait
        runner.batch(now, [(0, channel, b"%d" % label, None, False)])
        label += 2


@pytest.mark.usefixtures("_few")
def test_the_most_counts_until_there_are_samples_enough_and_then_the_quantile():
    rules = Rules(LABELS, gap=Skip(60_000, Quantile(0.75, 100, 60_000)))
    runner = Runner(rules)
    late_by(runner, [300])
    runner.batch(1000, [(0, b"a", b"3", None, False)])
    assert runner.state.due_ms(rules) == 61_000
    late_by(runner, [300])
    runner.batch(2000, [(0, b"a", b"99", None, False)])
    assert runner.state.due_ms(rules) == 2000 + 320, "three in four came at once or within 320 ms"
    runner.batch(2319, [])
    assert not runner.gaps
    runner.batch(2320, [])
    assert len(runner.gaps) == 1


@pytest.mark.usefixtures("_few")
def test_a_late_message_counts_with_its_whole_delay():
    rules = Rules(LABELS, gap=Skip(60_000, Quantile(0.75, 100, 60_000)))
    runner = Runner(rules)
    late_by(runner, [300, 300])
    now = runner.state.clock_ms
    runner.batch(now + 1, [(1, b"a", b"5", None, False)])
    runner.batch(now + 60_001, [])
    assert runner.gaps[-1][-1] == "timeout"
    before = runner.state.delays.copy()
    runner.batch(now + 70_001, [(2, b"a", b"4", None, False)])
    assert runner.rejects == [(2, "late")]
    ((rule, bucket),) = np.argwhere(runner.state.delays - before).tolist()
    assert (rule, BOUNDS[bucket]) == (0, 79_000)


def test_counts_go_with_the_glob_of_a_rule_and_end_with_its_measuring():
    by = Skip(60, Quantile(0.9, 0, 60))
    measured, fixed = Rules(LABELS, gap=by), Rules(LABELS, gap=Skip(60))
    runner = Runner(replace(fixed, others=(("a", measured), ("b", measured))))
    late_by(runner, [20], b"b")
    assert runner.state.delays.sum(axis=1).tolist() == [0, 0, 2]
    runner.rules = replace(fixed, others=(("b", measured),))
    runner.batch(100, [])
    assert runner.state.delays.sum(axis=1).tolist() == [0, 2]
    runner.rules = replace(fixed, others=(("b", fixed),))
    runner.batch(101, [])
    assert runner.state.delays.shape == (0, BUCKETS)


@pytest.mark.usefixtures("_few")
def test_a_repeated_batch_keeps_the_counts_of_a_policy_that_would_fail():
    """It does not fail for a gap, but its arrivals count, as do those before it."""
    rules = Rules(LABELS, gap=Fail(60_000, Quantile(0.75, 100, 60_000)))
    first, again = Runner(rules), Runner(rules)
    for runner in (first, again):
        late_by(runner, [200, 200])
    again.rules = rules.for_repeat
    for runner in (first, again):
        runner.batch(2000, [(1, b"a", b"9", None, False), (2, b"a", b"8", None, False)])
    assert first.state.delays.tolist() == again.state.delays.tolist()
    assert first.state.due_ms(rules) == again.state.due_ms(rules) == 2000 + 200
    again.batch(80_000, [])
    assert (again.state.due_ms(again.rules), again.gaps, again.held) == (None, [], [2, 1])


@pytest.mark.usefixtures("_few")
def test_a_late_message_of_a_gap_before_delays_were_measured_is_not_counted():
    """How long it was waited for is not known; it was counted with the time since 1970."""
    rules = Rules(LABELS, gap=Skip(50))
    runner = Runner(rules)
    runner.batch(1000, [(0, b"a", b"1", None, False)])
    runner.batch(1050, [])
    assert len(runner.gaps) == 1
    runner.rules = replace(rules, gap=Skip(60_000, Quantile(0.75, 100, 60_000)))
    runner.batch(1100, [(1, b"a", b"0", None, False), (2, b"a", b"2", None, False)])
    assert runner.rejects == [(1, "late")]
    assert runner.state.delays[0].nonzero()[0].tolist() == [0], "the one in order"


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_the_oldest_message_above_a_position_is_found_whatever_arrives_and_leaves(data):
    buffer, now, frontier = Buffer(), 0, 0
    for _ in range(data.draw(st.integers(1, 40))):
        now += data.draw(st.integers(0, 2))
        frontier = frontier if buffer else 0
        position = frontier + data.draw(st.integers(0, 12))
        what = data.draw(st.sampled_from(["add", "add", "add", "leave", "cut"]))
        if what == "add" and position not in buffer:
            buffer[position] = Waiting(0, now, False)
        elif what == "leave" and buffer:
            frontier = min(buffer) + 1
            buffer.pop(frontier - 1)
        elif what == "cut":
            buffer.pop_above(position)
            assert max(buffer, default=0) <= position
        for each in range(frontier, frontier + 14):
            above = [message.since_ms for at, message in buffer.items() if at > each]
            assert buffer.since_ms_above(each, -7) == min(above, default=-7)


def test_the_time_to_measure_does_not_grow_with_the_square_of_what_is_held():
    """A sender that began again, and whose first message is late."""
    count = 100_000
    by = Quantile(0.9, 0, 60_000)
    runner = Runner(Rules(LABELS, gap=Skip(60_000, by), held_max=count))
    runner.batch(5, [(0, b"a", b"0", None, False)])
    began_s = time.process_time()
    runner.batch(6, [(n, b"a", b"%d" % n, b"1", False) for n in range(1, count)])
    assert time.process_time() - began_s < 15, "with the square it is 60 s"
    assert len(runner.held) == count - 1


def test_what_was_long_ago_counts_less():
    counts = no_delays(2)
    counts[0, 3], counts[1, 3] = SAMPLES_MAX + 1, 7
    assert delays.halved(counts)[:, 3].tolist() == [SAMPLES_MAX // 2, 7]


@pytest.mark.parametrize("wrong", [(0, 1, 2), (1, 1, 2), (0.5, 3, 2), (0.5, -1, 2)])
def test_what_is_no_quantile(wrong):
    with pytest.raises(ValueError, match="share"):
        Quantile(*wrong)
