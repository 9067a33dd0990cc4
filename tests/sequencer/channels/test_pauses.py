"""Waits do not count the time in which the service read nothing, nor that of what is unread."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.channels import Arrivals, Rules, Skip, delays, step
from sequencer.channels.delays import Quantile
from sequencer.labels import LinearLabels
from tests.seeds import examples
from tests.sequencer.channels.histories import Runner, batches, follow
from tests.sequencer.channels.strategies import adapting, stories

BY = [Quantile(0.5, 0, 60), Quantile(0.9, 5, 60)]
NEVER = st.just(False)
LENGTHS = st.sampled_from([0, 0, 1, 9, 100, 20_000])


def behind(rules, *pauses):
    """The rules behind pauses, as a plan's decisions give them to all of its rules."""
    return with_all(rules, pauses=pauses)


def with_all(rules, **fields):
    others = tuple((glob, replace(each, **fields)) for glob, each in rules.others)
    return replace(rules, **fields, others=others)


def unread(data, batches, runner, model):
    """These batches, some of which leave records unread, as the rules and the model know."""
    caught_up, behind = 0, None
    for now, before, records in batches:
        if data.draw(st.booleans()):
            caught_up = max(caught_up, now - data.draw(LENGTHS))
            known = model.caught_up = caught_up
            behind = now - data.draw(LENGTHS) if behind is None else behind
        else:
            known, model.caught_up, caught_up, behind = None, math.inf, now, None
        model.behind = behind or 0
        runner.rules = with_all(runner.rules, caught_up_ms=known, behind_ms=model.behind)
        yield now, before, records


def paused(data, story, runner, model, *, once=NEVER):
    """A story's batches, some behind a pause, which the rules and the model know.

    ``once``: whether one lies between two runs with --once: it counts, so neither knows of it.
    """
    before, later, pauses = 0, 0, []
    for now, records in batches(story):
        length = data.draw(LENGTHS) if before else 0
        if length and not data.draw(once):
            pauses.append((before, length))
            runner.rules = behind(runner.rules, *pauses)
            model.pauses = pauses
        later += length
        before = now + later
        yield now, before, records


@settings(max_examples=examples(150), deadline=None)
@given(st.one_of(stories(), stories(keys=(b"a",), rows_max=4, cuts=(8, 12))), st.data())
def test_pauses_agree_with_the_naive_model(story, data):
    rules, model, *_ = story
    runner = Runner(rules)
    every = paused(data, story, runner, model, once=st.booleans())
    for _, now, records in unread(data, every, runner, model):
        due_ms = runner.state.due_ms(runner.rules)
        before = runner.state
        if due_ms is None or due_ms > now:
            runner.batch(now, [])
            assert (len(runner.state), len(runner.held)) == (len(before), len(before.held))
        follow(runner, model, now, records)


@settings(max_examples=examples(50), deadline=None)
@given(stories(keys=(b"a", b"a", b"b")), st.data())
def test_delays_do_not_count_them(story, data):
    rules, model, *_ = story
    runner = adapting(data, rules, model, BY)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(delays, "SAMPLES_MIN", 4)
        for _, now, records in unread(data, paused(data, story, runner, model), runner, model):
            follow(runner, model, now, records)


@settings(max_examples=examples(100), deadline=None)
@given(stories(), st.data())
def test_all_is_as_if_the_service_had_not_paused(story, data):
    rules, model, *_ = story
    runner, steady = Runner(rules), Runner(rules)
    for at, now, records in paused(data, story, runner, model):
        runner.batch(now, records)
        steady.batch(at, records)
        for name in ("rejects", "held", "others", "wanted"):
            assert getattr(runner, name) == getattr(steady, name)
        for name, what in (("out", slice(3)), ("gaps", slice(4))):
            mine, other = ([each[what] for each in getattr(of, name)] for of in (runner, steady))
            assert mine == other


def test_a_message_waits_as_long_as_the_service_reads():
    runner = Runner(Rules(LinearLabels(), gap=Skip(30), retire_after_ms=50))
    runner.batch(100, [(0, b"a", b"1", None, False), (1, b"b", b"0", None, False)])
    runner.rules = replace(runner.rules, pauses=((100, 1_000),))
    assert runner.state.due_ms(runner.rules) == 1_130
    runner.batch(1_129, [(2, b"c", b"1", None, False)])
    assert not runner.gaps
    runner.batch(1_130, [])
    assert runner.gaps == [(b"a", 0, 0, 1, 1_030, "timeout")], "all of the wait is told"
    runner.batch(1_149, [])
    assert not [each for each in runner.others if each[0] == "retired"]
    runner.batch(1_159, [])
    assert {each[1] for each in runner.others if each[0] == "retired"} == {b"a", b"b"}
    assert [gap[0] for gap in runner.gaps] == [b"a", b"c"], "behind the pause waits count as ever"


def test_no_wait_is_over_while_what_came_by_its_end_is_unread():
    """That of a held message, of a channel that settles and of an idle one."""
    rules = Rules(LinearLabels(), gap=Skip(3_000), retire_after_ms=5_000)
    runner, other = Runner(rules), Runner(replace(rules, settle_ms=3_000))
    for each in (runner, other):
        each.batch(100, [(0, b"a", b"1", None, False), (1, b"b", b"0", None, False)])
        each.rules = replace(each.rules, caught_up_ms=99)
        each.batch(8_000, [(2, b"c", b"1", None, False)])
        each.rules = replace(each.rules, caught_up_ms=3_099)
        each.batch(8_010, [])
        assert (each.gaps, each.others) == ([], [])
    runner.batch(8_020, [(3, b"a", b"0", None, False)])
    assert runner.out[-2:] == [(b"a", 0, 3, 100), (b"a", 1, 0, 100)], "not too late"
    for each in (runner, other):
        each.rules = replace(each.rules, caught_up_ms=None)
        each.batch(11_000, [])
    assert [gap[0] for gap in runner.gaps] == [b"c"]
    assert [each[1] for each in other.others if each[0] == "started"] == [b"a", b"b", b"c"]


def test_a_backlog_makes_no_wait_longer_than_four_times():
    """Else what waits for one lost label fills its buffer, and is rejected."""
    runner = Runner(replace(Rules(LinearLabels(), gap=Skip(3_000)), caught_up_ms=0))
    for now in (100, 12_099, 12_100):
        runner.batch(now, [(now, b"a", b"%d" % now, None, False)])
        assert bool(runner.gaps) == (now == 12_100)


def test_nor_than_four_times_since_reading_fell_behind():
    """Before that all was read: between two runs with ``--once`` nothing could be."""
    runner = Runner(Rules(LinearLabels(), gap=Skip(3_000)))
    runner.batch(100, [(0, b"a", b"1", None, False)])
    runner.rules = replace(runner.rules, caught_up_ms=0, behind_ms=90_000)
    for now in (90_000, 101_999, 102_000):
        runner.batch(now, [(now, b"b", b"0", None, False)])
        assert [gap[0] for gap in runner.gaps] == [b"a"] * (now == 102_000)


def test_nor_does_a_stop_count_there():
    """It began while reading was behind; what lasted long before was the time between two runs."""
    runner = Runner(Rules(LinearLabels(), gap=Skip(3_000)))
    runner.batch(100, [(0, b"a", b"1", None, False)])
    unread = {"caught_up_ms": 0, "behind_ms": 90_000}
    runner.rules = replace(runner.rules, **unread, pauses=((91_000, 500_000),))
    for now in (591_000, 601_999, 602_000):
        runner.batch(now, [])
        assert bool(runner.gaps) == (now == 602_000)


def test_requests_wait_as_long():
    runner = Runner(Rules(LinearLabels(), ask_ms=30))
    runner.batch(100, [(0, b"a", b"1", None, False)])
    runner.rules = behind(runner.rules, (100, 1_000))
    for now, tries in ((1_129, 0), (1_130, 1), (1_160, 2)):
        assert (runner.state.due_ms(runner.rules) <= now) == (tries > len(runner.wanted))
        runner.batch(now, [])
        assert len(runner.wanted) == tries
    runner.rules = behind(runner.rules, (100, 1_000), (1_160, 500))
    for now, tries in ((1_719, 2), (1_720, 3)):
        runner.batch(now, [])
        assert len(runner.wanted) == tries


def test_a_message_is_late_by_the_time_without_them():
    runner = Runner(Rules(LinearLabels(), gap=Skip(60_000, Quantile(0.5, 0, 60_000))))
    runner.batch(100, [(0, b"a", b"1", None, False)])
    runner.rules = behind(runner.rules, (100, 50_000))
    arrivals = Arrivals(
        *(pa.array([each], pa.binary()) for each in (b"a", b"0", None)), np.zeros(1, bool)
    )
    outcome = step(runner.state, arrivals, 50_170, runner.rules)
    assert outcome.disorder.late_ms.tolist() == [70]
