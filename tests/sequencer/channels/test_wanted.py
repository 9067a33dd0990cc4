"""Asking for what is missing: when, how often, for which labels; and answers that it will not come.

Against the naive model in `test_step` and its neighbours, whose rules ask, too.
"""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from sequencer.channels import ChannelCommand, Full, Op, Rules, Skip, commands, runs
from sequencer.channels import wanted as asking
from sequencer.channels.runs import RUNS_MAX, TRIES_MAX
from sequencer.custom_labels import CustomLabels
from sequencer.labels import CyclicLabels, LinearLabels
from tests.seeds import examples
from tests.sequencer.channels.histories import Runner, batches
from tests.sequencer.channels.strategies import stories

RULES = Rules(LinearLabels(), ask_ms=100)


def sent(*labels, epoch=None, fin=False):
    return [(label, b"a", b"%d" % label, epoch, fin) for label in labels]


def absent(first, stop, epoch=0, key=b"a"):
    ends = (str(each).encode() for each in (first, stop))
    first, stop = ends
    return ChannelCommand(Op.NOT_COMING, key, label=stop, first=first, epoch=epoch)


def asked(runner):
    found, runner.wanted = [each[2:] for each in runner.wanted], []
    return found


def test_tries_come_at_1_2_4_times_and_eight_of_them():
    runner, times = Runner(RULES), []
    runner.batch(1000, sent(0, 3))
    while (due := runner.state.due_ms(RULES)) is not None:
        runner.batch(due - 1, [])
        assert not asked(runner), "not before it is due"
        runner.batch(due, [])
        ((first, stop, number),) = asked(runner)
        assert (first, stop) == (1, 3)
        times.append(((due - 1000) // 100, number))
        runner.batch(due, [])
        assert not asked(runner), "once for each try"
    assert times == [(2**n, n + 1) for n in range(TRIES_MAX)]


def test_a_late_batch_uses_up_no_tries():
    """After a pause each try has its time again."""
    runner = Runner(RULES)
    runner.batch(1000, sent(0, 2))
    for now, tries in ((5000, [1]), (5050, []), (5100, [2]), (5299, []), (5300, [3]), (5500, [])):
        runner.batch(now, [])
        assert [number for *_, number in asked(runner)] == tries, now


def test_each_run_has_tries_of_its_own_and_what_is_left_of_it_keeps_them():
    runner = Runner(RULES)
    runner.batch(1000, sent(0, 9))
    runner.batch(1100, sent(12))
    assert asked(runner) == [(1, 9, 1)]
    runner.batch(1200, sent(5))
    assert asked(runner) == [(1, 5, 2), (6, 9, 2), (10, 12, 1)]
    runner.batch(1400, sent(1, 2, 3))
    assert asked(runner) == [(4, 5, 3), (6, 9, 3), (10, 12, 2)]
    assert runner.answered == 4, "5, then 1 to 3"
    runner.batch(1500, sent(4, 6, 7, 8, 10, 11))
    assert (asked(runner), runner.answered, runner.held) == ([], 10, [])


def test_a_new_epoch_and_a_new_incarnation_begin_anew():
    runner = Runner(RULES)
    runner.batch(1000, sent(2))
    runner.batch(1100, [])
    runner.batch(1200, sent(2, epoch=b"7"))
    runner.batch(1250, [], [ChannelCommand(Op.RESET, b"a")])
    runner.batch(1300, sent(2))
    for now in (1399, 1400):
        runner.batch(now, [])
    assert [each[1:] for each in runner.wanted] == [(0, 0, 2, 1), (0, 0, 2, 1)]
    assert len(runner.state.runs) == 1


def test_labels_are_asked_for_as_they_are_written():
    cyclic, custom = CyclicLabels(8, 6), CustomLabels("L0", lambda text: f"L{int(text[1:]) + 1}")
    for labels, texts, found in ((cyclic, b"61", (7, 1)), (custom, b"L0 L3", ("L1", "L3"))):
        some = texts.split() if b" " in texts else [b"%c" % byte for byte in texts]
        runner = Runner(replace(RULES, labels=labels, window=3))
        runner.batch(1000, [(n, b"\xff", text, None, False) for n, text in enumerate(some)])
        runner.batch(1100, [])
        assert runner.wanted == [(b"\xff", 0, *found, 1)]


def test_what_is_held_stays_once_beside_a_record_that_is_rejected_for_what_it_shows():
    """A channel that waits for labels announced as not coming, in a batch that holds none for it."""
    runner = Runner(Rules(LinearLabels()))
    runner.batch(1000, sent(2))
    runner.batch(1001, [], [absent(1, 2)])
    runner.batch(1002, sent(0, epoch=b"none"))
    assert (runner.held, runner.rejects) == ([2], [(0, "bad-epoch")])
    runner.batch(1003, [(7, b"a", b"0", None, False)])
    assert [number for _, _, number, _ in runner.out] == [7, 2]


def test_at_the_limits(monkeypatch):
    runner = Runner(RULES)
    runner.batch(1000, sent(*range(1, 2 * RUNS_MAX + 4, 2)))
    runner.batch(1100, [])
    assert len(asked(runner)) == RUNS_MAX
    monkeypatch.setattr(asking, "WANTED_MAX", 5)
    others = [(n, b"k%d" % n, b"1", None, False) for n in range(7)]
    runner = Runner(RULES)
    runner.batch(1000, others[:3])
    runner.batch(1001, others[3:])
    runner.batch(1101, [])
    assert [key for key, *_ in runner.wanted] == [b"k%d" % n for n in range(5)], "longest first"
    assert runner.state.due_ms(RULES) <= 1101, "the others in the next batch"
    runner.batch(1101, [])
    assert [key for key, *_ in runner.wanted[5:]] == [b"k5", b"k6"]


def test_runs_that_had_all_their_tries_take_no_place(monkeypatch):
    monkeypatch.setattr(runs, "RUNS_MAX", 2)
    runner, found = Runner(RULES), []
    runner.batch(1000, [*sent(1, 3, 5), (9, b"b", b"1", None, False)])
    while (due := runner.state.due_ms(RULES)) is not None:
        runner.batch(due, [])
        found += [first for key, _, first, *_ in runner.wanted if key == b"a"]
        runner.wanted = []
    assert found == [0, 2] * TRIES_MAX + [4] * TRIES_MAX


def test_only_some_channels_are_asked_for():
    rules = Rules(LinearLabels(), others=(("a", RULES),))
    runner = Runner(rules)
    runner.batch(1000, [*sent(1), (1, b"b", b"1", None, False)])
    runner.batch(1100, [])
    assert [key for key, *_ in runner.wanted] == [b"a"]
    runner.rules = Rules(LinearLabels())
    runner.batch(1200, [])
    assert len(runner.state.runs) == 0, "nobody asks any more"


def test_what_is_given_up_in_time_is_not_asked_for():
    runner = Runner(replace(RULES, gap=Skip(150)))
    runner.batch(1000, sent(1))
    runner.batch(1100, [])
    runner.batch(1200, [])
    assert (len(asked(runner)), len(runner.gaps), runner.answered) == (1, 1, 0)
    assert runner.state.due_ms(runner.rules) > 10**8


def test_what_will_not_come_ends_the_wait_at_once():
    runner = Runner(RULES)
    runner.batch(1000, sent(0, 3, 5))
    runner.batch(1110, [], [absent(1, 3)])
    assert runner.answers == [(1, 2, None)]
    assert runner.gaps == [(b"a", 0, 1, 3, 110, "not-coming")]
    assert [row for _, _, row, _ in runner.out] == [0, 3]
    runner.batch(1120, sent(2))
    assert runner.rejects == [(2, "late")]
    assert runner.places[2][1] == (b"a", 1000, 0, 1)


def test_what_is_not_next_is_given_up_when_it_is():
    runner = Runner(RULES)
    runner.batch(1000, sent(0, 3, 8))
    runner.batch(1100, [], [absent(4, 7)])
    assert (runner.answers, runner.gaps) == ([(1, 3, None)], [])
    assert asked(runner) == [(1, 3, 1), (7, 8, 1)], "nobody is asked for it any more"
    runner.batch(1150, sent(5), [absent(4, 7)])
    assert runner.answers[1:] == [(0, 0, None)], "once is enough"
    runner.batch(1160, sent(1, 2))
    assert runner.gaps == [(b"a", 0, 4, 5, 160, "not-coming"), (b"a", 0, 6, 7, 160, "not-coming")]
    assert [row for _, _, row, _ in runner.out] == [0, 1, 2, 3, 5], "what came all the same is here"
    assert len(runner.state.runs) == 1


def test_nothing_is_given_up_but_what_is_missing_of_this_epoch():
    runner = Runner(RULES)
    runner.batch(1000, sent(0, 3, epoch=b"5"))

    def answer(*given):
        runner.answers = []
        runner.batch(1100, [], [absent(*given)])
        return runner.answers[0]

    assert answer(1, 3, 4) == answer(1, 3, 6) == (0, 0, "other-epoch")
    assert answer(3, 99, 5) == answer(0, 1, 5) == answer(2, 2, 5) == answer(2, 1, 5) == (0, 0, None)
    assert answer("x", 3, 5) == answer(1, "x", 5) == (0, 0, "bad-label")
    assert answer(1, 3, 5, b"nobody") == (0, 0, None)
    assert (runner.gaps, [row for _, _, row, _ in runner.out]) == ([], [0])
    assert answer(0, 99, 5) == (1, 2, None)
    runner.batch(1200, sent(4, epoch=b"5"))
    assert [row for _, _, row, _ in runner.out] == [0, 3, 4], "nobody knows that 4 is missing"


def test_a_fin_ends_what_will_not_come():
    runner = Runner(RULES)
    runner.batch(1000, sent(0, 4, 9))
    runner.batch(1100, [], [absent(5, 9)])
    runner.batch(1200, sent(2, fin=True))
    runner.batch(1210, sent(1))
    assert [row for _, _, row, _ in runner.out] == [0, 1, 2]
    assert (runner.gaps, len(runner.state.runs)) == ([], 0)


@pytest.mark.parametrize("apart", [False, True])
def test_labels_beyond_a_fin_are_not_answered_though_an_epoch_comes_in_the_same_batch(apart):
    runner = Runner(RULES)
    runner.batch(1000, sent(0, 2, 4))
    runner.batch(1100, [])
    assert asked(runner) == [(1, 2, 1), (3, 4, 1)]
    records = [*sent(1, fin=True), (9, b"a", b"0", b"7", False)]
    for some in [records[:1], records[1:]] if apart else [records]:
        runner.batch(1200, some)
    assert (runner.answered, sorted(runner.rejects)) == (1, [(2, "after-fin"), (4, "after-fin")])


def test_so_many_ranges_are_remembered(monkeypatch):
    """A thousand; with fewer, as each of these commands takes a step of its channel's own."""
    monkeypatch.setattr(commands, "ABSENT_MAX", 100)
    count = 101
    runner = Runner(Rules(LinearLabels(), held_max=10**4))
    runner.batch(1000, sent(*range(1, 2 * count + 4, 2)))
    runner.batch(1001, [], [absent(n, n + 1) for n in range(2, 2 * count + 2, 2)])
    refused = [answer for answer in runner.answers if answer[2]]
    assert refused == [(0, 0, "too-many")]


@settings(max_examples=examples(100), deadline=None)
@given(stories())
def test_more_batches_at_the_same_times_ask_for_the_same(story):
    rules, *_ = story
    rules = replace(rules, ask_ms=6, full=Full.REJECT)
    once, often = Runner(rules), Runner(rules)
    for now, records in batches(story):
        once.batch(now, records)
        for part in (records, [], []):
            often.batch(now, part)
    assert once.answered == often.answered
    for name in ("wanted", "out", "rejects", "gaps", "held"):
        assert sorted(getattr(once, name)) == sorted(getattr(often, name))


def test_labels_that_are_not_asked_for_any_more_are_not_answered():
    """The rules of a channel change, others ask still."""
    own = replace(RULES, ask_ms=None)
    runner = Runner(replace(own, others=(("a", RULES), ("b", RULES))))
    runner.batch(1000, sent(0, 3))
    runner.batch(1100, [])
    assert asked(runner) == [(1, 3, 1)]
    runner.rules = replace(own, others=(("b", RULES),))
    runner.batch(1200, [])
    assert (runner.answered, runner.held) == (0, [3])


def test_the_time_for_many_runs_does_not_grow_with_their_square():
    """All that was asked for is given up by an operator; many ranges will not come."""
    count = 20_000
    runner = Runner(replace(RULES, held_max=count))
    runner.batch(1000, [(n, b"a", b"%d" % (2 * n + 1), None, False) for n in range(count)])
    began_s = time.process_time()
    runner.batch(1001, [], [absent(4 * n + 2, 4 * n + 3) for n in range(commands.ABSENT_MAX)])
    runner.batch(1002, [])
    first, state = np.arange(count) * 2, runner.state
    columns = [np.full(count, int(n)) for n in (0, state.incarnation[0], 0, TRIES_MAX, 1000)]
    asked_for = runs.Runs(columns[0], first, first + 1, *columns[1:])
    runner.state = replace(state, runs=asked_for)
    runner.batch(1003, [], [ChannelCommand(Op.SKIP, b"a", label=b"%d" % (2 * count))])
    assert time.process_time() - began_s < 20, "with the square it is two minutes"
    assert (len(runner.gaps), runner.answered, runner.held) == (count, 0, [])
