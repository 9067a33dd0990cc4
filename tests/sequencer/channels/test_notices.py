"""Notices in channels' streams against the naive model; any split into batches gives the same."""

from dataclasses import replace
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.channels import ChannelCommand, Op, Rules, Skip
from sequencer.labels import LinearLabels
from tests.seeds import examples
from tests.sequencer.channels.histories import Runner, any_split, batches, follow
from tests.sequencer.channels.strategies import as_command, commands, stories


@settings(max_examples=examples(120), deadline=None)
@given(stories(keys=(b"a", b"b\xff"), pauses=(0, 0, 7, 30)), st.data())
def test_agree_with_the_naive_model(story, data):
    rules, model, *_ = story
    rules = replace(rules, notices=True)
    runner, model.notices = Runner(rules), True
    refused = st.dictionaries(st.integers(0, 60), st.sampled_from(["too-large", "refused"]))
    runner.refused = model.refused = data.draw(refused)
    for now, records in batches(story):
        asked = [as_command(rules.labels, each) for each in data.draw(commands())]
        follow(runner, model, now, records, asked)
    numbers = {}
    for key, sequence, incarnation in [(o[0], o[1], o[3]) for o in runner.out] + [
        (t[0], t[1], t[2]) for t in runner.told
    ]:
        numbers.setdefault((key, incarnation), []).append(sequence)
    assert all(sorted(each) == list(range(len(each))) for each in numbers.values())


@settings(max_examples=examples(80), deadline=None)
@given(stories())
def test_any_split_into_batches_gives_the_same(story):
    rules, _, rows, bounds, _ = story
    rules = Rules(
        rules.labels, held_max=rules.held_max, window=rules.window, full=rules.full, notices=True
    )
    names = ("out", "rejects", "gaps", "others", "held", "told")
    any_split(partial(Runner, rules), rows, bounds, names)


def sent(number, label, epoch=None, *, fin=False):
    return number, b"a", b"%d" % label, epoch, fin


def test_a_gap_comes_before_what_follows_it_and_before_a_new_epoch():
    runner = Runner(Rules(LinearLabels(), gap=Skip(10), notices=True))
    runner.batch(100, [sent(0, 0), sent(1, 2)])
    runner.batch(110, [])
    runner.batch(120, [sent(2, 5), sent(3, 0, b"1"), sent(4, 1, b"1", fin=True)])
    runner.batch(130, [], [ChannelCommand(Op.RESET, b"a")])
    order = sorted([(n, row) for _, n, row, _ in runner.out] + [(t[1], t[3]) for t in runner.told])
    streamed = [0, "gap", 1, "gap", 2, "epoch", 3, 4, "fin", "reset"]
    assert [what for _, what in order] == streamed
    assert [n for n, _ in order] == list(range(len(streamed)))
    assert {t[2] for t in runner.told} == {100}, "a reset is the old incarnation's last number"


def test_a_reject_is_behind_a_delivery_not_behind_a_notice():
    runner = Runner(Rules(LinearLabels(), notices=True))
    runner.batch(100, [sent(0, 1)], [ChannelCommand(Op.SEED, b"a", label=b"1")])
    assert (runner.told, runner.out) == ([(b"a", 0, 100, "gap", 0)], [(b"a", 1, 0, 100)])
    runner.batch(101, [sent(1, 0)], [ChannelCommand(Op.SEED, b"a", label=b"5")])
    runner.batch(102, [sent(2, 5), sent(3, 5)])
    assert runner.places[1] == ((100, 1), (b"a", 100, 0, 0))
    assert runner.places[3] == ((100, 3), None)


def test_what_was_only_told_of_has_no_delivery_before_it():
    runner = Runner(Rules(LinearLabels(), notices=True))
    runner.batch(100, [sent(0, 0)], [ChannelCommand(Op.SEED, b"a", label=b"5")])
    assert runner.places[0] == (None, (b"a", 100, 0, 0))
