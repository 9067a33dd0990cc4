"""Rules by channel: which one applies, and a step under several against the naive model."""

from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.channels import Full, Rules, Skip
from sequencer.channels.globs import first_match, first_match_of, matches
from sequencer.labels import LinearLabels
from tests.seeds import examples
from tests.sequencer.channels.histories import Runner, any_split, batches, follow
from tests.sequencer.channels.strategies import other_rules, stories

GLOBS = ["a*", "b", "vip.*", "*", "?", "[ab]", "[!a]*"]
LABELS = LinearLabels()


@settings(max_examples=examples(40), deadline=None)
@given(stories(keys=(b"a", b"b", b"vip.x", b"c\xff")), st.data())
def test_rules_by_channel_agree_with_the_naive_model(story, data):
    rules, model, *_ = story
    runner = Runner(rules)
    runner.rules, model.ruled = data.draw(other_rules(rules, GLOBS))
    for now, records in batches(story):
        follow(runner, model, now, records)


@settings(max_examples=examples(30), deadline=None)
@given(stories(keys=(b"a", b"vip.x")), st.data())
def test_rules_that_change_between_batches_lose_nothing(story, data):
    """Each record still ends in one place (the runner sees to it), and other room rejects nothing
    that is held."""
    rules, *_ = story
    runner = Runner(rules)
    for now, records in batches(story):
        runner.rules, _ = data.draw(other_rules(rules, GLOBS))
        held = {*runner.held}
        runner.batch(now, records)
        assert not held & {row for row, why in runner.rejects if why != "after-fin"}
        due = runner.state.due_ms(runner.rules)
        assert due is None or due > now


@settings(max_examples=examples(30), deadline=None)
@given(stories(keys=(b"a", b"vip.x")), st.data())
def test_any_split_into_batches_gives_the_same_under_rules_by_channel(story, data):
    rules, _, rows, bounds, _ = story
    settle_ms = None if rules.settle_ms is None else 10**6  # nothing ends between two batches
    rules = replace(rules, gap=Skip(10**6), settle_ms=settle_ms)
    rules, _ = data.draw(other_rules(rules, GLOBS))
    rules = replace(rules, others=tuple((g, replace(r, gap=Skip(10**6))) for g, r in rules.others))
    names = ("out", "rejects", "dropped", "gaps", "others", "held")
    any_split(partial(Runner, rules), rows, bounds, names)


def test_less_room_than_what_is_held_rejects_and_gives_up_nothing_that_is_held():
    runner = Runner(Rules(LABELS, held_max=10))
    runner.batch(5, [(n, b"a", b"%d" % (2 * n + 1), None, False) for n in range(8)])
    runner.rules = replace(runner.rules, others=(("a", Rules(LABELS, held_max=2, window=3)),))
    runner.batch(6, [(8, b"a", b"17", None, False), (9, b"a", b"0", None, False)])
    assert runner.rejects == [(8, "outside-window")]
    assert [row for _, _, row, _ in runner.out] == [9, 0]
    assert len(runner.held) == 7
    runner.batch(7, [(10, b"a", b"4", None, False), (11, b"a", b"2", None, False)])
    assert runner.rejects[1:] == [(10, "buffer-full")]
    assert len(runner.held) == 6
    assert not runner.gaps


def test_with_full_skip_less_room_gives_up_labels_and_rejects_nothing():
    runner = Runner(Rules(LABELS, held_max=10, full=Full.SKIP))
    runner.batch(5, [(n, b"a", b"%d" % (2 * n + 1), None, False) for n in range(5)])
    runner.rules = replace(runner.rules, held_max=2)
    runner.batch(6, [(5, b"a", b"11", None, False)])
    assert [row for _, _, row, _ in runner.out] == [0, 1, 2, 3]
    assert not runner.rejects


def test_a_glob_matches_the_whole_text_and_no_key_without_one():
    keys = [b"vip.a", b"vip.", b"xvip.a", b"vip.a\n", b"vip", b"", b"vip.\xff", "vip.é".encode()]
    found = matches(pa.array(keys), "vip.*").tolist()
    assert found == [True, True, False, True, False, False, False, True]
    assert matches(pa.array(keys), "*").tolist() == [True] * 6 + [False, True]
    with pytest.raises(ValueError, match="is no pattern"):
        Rules(LABELS, others=(("[z-a]", Rules(LABELS)),))


@settings(max_examples=examples(200), deadline=None)
@given(
    st.text("ab*?[]!-^\\.é", max_size=6),
    st.lists(st.text("ab*?[]!-^\\.é\n", max_size=4), max_size=8),
)
def test_globs_agree_with_fnmatch(glob, texts):
    keys = pa.array([text.encode() for text in texts], pa.binary())
    try:
        found = matches(keys, glob).tolist()
    except ValueError:
        return  # such as [b-a], which fnmatch takes for one that matches nothing
    assert found == [fnmatchcase(text, glob) for text in texts]
    assert found == [first_match_of(text.encode(), (glob,)) == 1 for text in texts]


def test_the_rule_of_one_channel_is_the_first_that_matches():
    globs = ("vip.a", "vip.*", "*")
    keys = [b"vip.a", b"vip.b", b"", b"\xff"]
    assert [first_match_of(key, globs) for key in keys] == [1, 2, 3, 0]
    assert first_match(pa.array(keys), globs).tolist() == [1, 2, 3, 0]
    with pytest.raises(ValueError, match="is no pattern"):
        first_match_of(b"", ("*", "[z-a]"))
