"""Sequences that are known by their next function alone, far beyond what is kept of them."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer import custom_labels
from sequencer.channels import Rules, rules
from sequencer.custom_labels import CustomLabels
from tests.seeds import examples, seeds
from tests.sequencer.channels.histories import Runner

WINDOW, SEARCH_MIN = 3, 2
SEARCH = 2 * WINDOW + SEARCH_MIN


def after(text):
    return f"L{int(text[1:]) + 1}"


def named(*positions):
    return pa.array([b"L%d" % position for position in positions], pa.binary())


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Blocks of four labels, three of which are kept; a search of eight to each side."""
    monkeypatch.setattr(custom_labels, "BLOCK", 4)
    monkeypatch.setattr(custom_labels, "BLOCKS_MAX", 3)
    monkeypatch.setattr(custom_labels, "CYCLE_SEARCH_MAX", 8)
    monkeypatch.setattr(rules, "CUSTOM_SEARCH_MIN", SEARCH_MIN)


@pytest.mark.parametrize("seed", seeds(3, 100))
@pytest.mark.parametrize("cycle", [None, 21, 64])
def test_what_is_within_reach_is_found_and_nothing_is_found_wrongly(seed, cycle):
    rng = np.random.default_rng(seed)
    initial = "L0"
    labels = CustomLabels(
        initial, lambda t: after(t) if after(t) != f"L{cycle}" else initial, cycle
    )
    for _ in range(60):
        count, near = int(rng.integers(1, 6)), rng.integers(0, 300, 5)
        reach = rng.integers(0, 20, 5)
        positions = np.maximum(near + rng.integers(-25, 25, 5), 0)[:count]
        in_cycle = positions % cycle if cycle else positions
        found = labels.positions(named(*in_cycle), reach[:count], near[:count])
        assert all(at in (-1, want) for at, want in zip(found, in_cycle, strict=True))
        ahead = positions - near[:count]
        must = (-reach[:count] <= ahead) & (ahead < reach[:count]) | (in_cycle < reach[:count])
        assert (found[must] == in_cycle[must]).all()
        assert len(labels._known) <= 3 * 4


def test_labels_that_are_none_are_not_found_and_those_far_away_neither():
    labels = CustomLabels("L0", after)
    assert labels.positions(
        pa.array([b"", b"\xff", b"L-1", b"x"], pa.binary()), 40, 500
    ).tolist() == ([-1] * 4)
    assert labels.positions(named(700), 40, 500).tolist() == [-1]
    assert labels.positions(named(539, 540, 460, 459), 40, 500).tolist() == [539, -1, 460, -1]
    assert labels.at(10**4) == "L10000"
    assert [labels.position(label, 8) for label in ("L7", 7, None, "\ud800")] == [7, -1, -1, -1]


def test_a_sequence_that_repeats_is_refused_with_the_reason_each_time():
    labels = CustomLabels("L0", lambda t: "L5" if t == "L17" else after(t))
    for near in (15, 15, 16, 16):
        with pytest.raises(ValueError, match="repeats 'L5' after 18 labels"):
            labels.positions(named(16), 4, near)
    assert labels.positions(named(14), 4, 10).tolist() == [14]


def test_after_a_restart_it_is_walked_from_what_was_remembered():
    calls = []

    def counted(text):
        calls.append(text)
        return after(text)

    old = CustomLabels("L0", after)
    old.at(10_000)
    anchors = old.anchors(np.array([10_000, 3, 500, 501]), SEARCH)
    assert anchors == ((492, "L492"), (9992, "L9992"))
    new = CustomLabels("L0", counted)
    new.know(anchors)
    calls.clear()
    assert new.positions(named(10_000), SEARCH, 10_000).tolist() == [10_000]
    assert len(calls) < 40


def test_a_long_cycle_is_named_and_checked():
    def turn(text):
        return "L0" if text == "L99" else after(text)

    labels = CustomLabels("L0", turn, 100)
    assert (labels.cycle, labels.searched, labels.at(205)) == (100, True, "L5")
    assert labels.positions(named(2, 98), 8, 499).tolist() == [2, 98]
    with pytest.raises(ValueError, match="write cycle = 100"):
        CustomLabels("L0", turn).at(200)
    with pytest.raises(ValueError, match="cycle is 60, but label 60 is 'L60'"):
        CustomLabels("L0", turn, 60).at(59)
    with pytest.raises(ValueError, match="cycle is 3"):
        CustomLabels("L0", turn, 3)
    short = CustomLabels("L0", lambda text: "L0" if text == "L5" else after(text))
    assert (short.cycle, short.searched) == (6, False)
    with pytest.raises(ValueError, match="write cycle = 6"):
        CustomLabels("L0", lambda text: "L0" if text == "L5" else after(text), 7)


def test_a_sequence_that_ends_is_known_to_end():
    def until(text):
        if text == "L30":
            raise StopIteration
        return after(text)

    labels = CustomLabels("L0", until)
    assert labels.at(30) == "L30"
    with pytest.raises(IndexError):
        labels.at(31)
    with pytest.raises(IndexError):
        labels.at(400)
    assert labels.positions(named(31, 30), 50, 30).tolist() == [-1, 30]


class Naive:
    """One record at a time: channel -> (next position, what is held)."""

    def __init__(self, cycle):
        self.cycle = cycle
        self.channels = {}
        self.out, self.rejects = [], []

    def take(self, row, key, position):
        frontier, held = self.channels.get(key, (0, {}))
        ahead = position - frontier
        if self.cycle is not None:
            ahead %= self.cycle
            ahead -= self.cycle if ahead > WINDOW else 0
        if not -SEARCH <= ahead < SEARCH:
            self.rejects.append((row, "bad-label"))
        elif ahead > WINDOW:
            self.rejects.append((row, "outside-window"))
        elif ahead < 0 or frontier + ahead in held:
            self.rejects.append((row, "duplicate"))
        else:
            held[frontier + ahead] = row
            while frontier in held:
                self.out.append((key, held.pop(frontier)))
                frontier += 1
            self.channels[key] = frontier, held


@settings(max_examples=examples(60), deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from([b"a", b"b"]), st.integers(-12, 12)), min_size=1, max_size=60
    ),
    ran_ahead=st.integers(0, 40),
    cycle=st.sampled_from([None, 53]),
    cuts=st.lists(st.integers(0, 100), max_size=6),
)
def test_far_channels_agree_with_a_naive_model_however_they_are_split(
    steps, ran_ahead, cycle, cuts
):
    """Each batch has labels that know nothing yet but what the state says, as after a restart."""
    naive, records = Naive(cycle), []
    ahead_of = [(b"a", 0)] * ran_ahead + steps
    for row, (key, ahead) in enumerate(ahead_of):
        position = max(0, naive.channels.get(key, (0, {}))[0] + ahead)
        naive.take(row, key, position)
        label = b"L%d" % (position % cycle if cycle else position)
        records.append((row, key, label, None, False))
    bounds = sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})
    runner = Runner(None)
    for first, stop in pairwise(bounds):
        labels = CustomLabels("L0", lambda t: "L0" if after(t) == f"L{cycle}" else after(t), cycle)
        runner.rules = Rules(labels, window=WINDOW)
        runner.batch(5, records[first:stop])
    for key in (b"a", b"b"):
        assert [row for name, _, row, _ in sorted(runner.out) if name == key] == [
            row for name, row in naive.out if name == key
        ]
    assert sorted(runner.rejects) == sorted(naive.rejects)


def in_order(first, stop):
    return [(row, b"a", b"L%d" % row, None, False) for row in range(first, stop)]


def test_what_falls_out_of_reach_within_a_batch_is_no_label():
    """Its channel is in the vectorised step otherwise: it moves by no more than its window."""
    runner = Runner(Rules(CustomLabels("L0", after), window=WINDOW))
    runner.batch(5, in_order(0, 20))
    moved = in_order(20, 20 + WINDOW)
    far, near = 20 + WINDOW - SEARCH - 1, 20 + WINDOW - SEARCH
    late = [(50, b"a", b"L%d" % far, None, False), (51, b"a", b"L%d" % near, None, False)]
    runner.batch(6, [*moved, *late])
    assert runner.rejects == [(50, "bad-label"), (51, "duplicate")]


def test_a_step_walks_on_from_where_the_state_is():
    calls = []

    def counted(text):
        calls.append(text)
        return after(text)

    runner = Runner(Rules(CustomLabels("L0", after), window=WINDOW))
    runner.batch(5, in_order(0, 4000))
    runner.rules = Rules(CustomLabels("L0", counted), window=WINDOW)
    calls.clear()
    runner.batch(6, in_order(4000, 4003))
    assert len(runner.out) == 4003
    assert len(calls) < 40


def test_the_first_labels_are_never_let_go():
    """So they are known in a process that has just begun, and in one that has walked far."""
    labels = CustomLabels("L0", after)
    labels.at(10_000)
    assert labels.always == 8
    assert labels.positions(named(*range(8)), 0, 9_000).tolist() == [*range(8)]
    assert len(labels._known) <= 3 * 4
