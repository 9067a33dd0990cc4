"""A gap time that sets itself, by the delays of messages, against the naive model."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.channels import Rules, Skip, delays
from sequencer.channels.delays import BOUNDS, BUCKETS, SAMPLES_MAX, Quantile, no_delays
from sequencer.labels import LinearLabels
from tests.seeds import examples
from tests.sequencer.channels.histories import (
    Runner,
    batches,
    follow,
    other_rules,
    policy,
    stories,
)

BY = [Quantile(0.5, 0, 60), Quantile(0.9, 5, 60), Quantile(0.8, 0, 25)]
LABELS = LinearLabels()


@pytest.fixture
def _few(monkeypatch):
    monkeypatch.setattr(delays, "SAMPLES_MIN", 4)


@settings(max_examples=examples(30), deadline=None)
@given(stories(keys=(b"a", b"a", b"b")), st.data())
def test_agrees_with_the_naive_model(story, data):
    rules, model, *_ = story
    runner = Runner(rules)
    own = data.draw(st.sampled_from(BY))
    runner.rules, model.ruled = data.draw(other_rules(rules, ["b"], times=[*BY, 15]))
    runner.rules = replace(runner.rules, gap=policy(own))
    model.own["gap_after"] = own
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


def test_what_was_long_ago_counts_less():
    counts = no_delays(2)
    counts[0, 3], counts[1, 3] = SAMPLES_MAX + 1, 7
    assert delays.halved(counts)[:, 3].tolist() == [SAMPLES_MAX // 2, 7]


@pytest.mark.parametrize("wrong", [(0, 1, 2), (1, 1, 2), (0.5, 3, 2), (0.5, -1, 2)])
def test_what_is_no_quantile(wrong):
    with pytest.raises(ValueError, match="share"):
        Quantile(*wrong)
