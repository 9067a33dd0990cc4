"""Records that cannot be delivered, against the naive model: their labels are given up in place."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.channels import ChannelCommand, Op, Rules, Skip
from sequencer.channels.rules import SKIPPED_RANGES_MAX
from sequencer.custom_labels import CustomLabels
from sequencer.labels import LinearLabels
from tests.seeds import examples
from tests.sequencer.channels.histories import Runner, any_split, batches, follow, timeless
from tests.sequencer.channels.strategies import as_command, commands, stories

WHY = ("too-large", "refused")


@st.composite
def stories_with_refused(draw, **how):
    rules, model, rows, bounds, times = draw(stories(**how))
    numbers = [row[0] for row in rows]
    some = st.dictionaries(st.sampled_from(numbers), st.sampled_from(WHY)) if rows else st.just({})
    model.refused = draw(some)
    return rules, model, rows, bounds, times


@settings(max_examples=examples(200), deadline=None)
@given(stories_with_refused(keys=(b"a", b"b\xff"), pauses=(0, 0, 7, 30)), st.data())
def test_agree_with_the_naive_model(story, data):
    rules, model, *_ = story
    runner = Runner(rules)
    runner.refused = model.refused
    for now, records in batches(story):
        asked = [as_command(rules.labels, each) for each in data.draw(commands())]
        follow(runner, model, now, records, asked)


@settings(max_examples=examples(150), deadline=None)
@given(stories_with_refused())
def test_any_split_into_batches_gives_the_same(story):
    rules, model, rows, bounds, _ = story

    def new_runner():
        runner = Runner(timeless(rules))
        runner.refused = model.refused
        return runner

    any_split(new_runner, rows, bounds)


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_what_comes_before_a_refused_one_stays_as_it_was(data):
    """A part of a batch may be written when it turns out that Kafka refuses a record behind it."""
    counts = data.draw(st.lists(st.integers(2, 4), min_size=2, max_size=4))
    fin = data.draw(st.booleans())
    rows = [
        (row, b"%d" % channel, b"%d" % label, None, fin and channel == 0 and label == 1)
        for row, (channel, label) in enumerate(
            (channel, label) for channel, count in enumerate(counts) for label in range(count)
        )
    ]
    rules, asked = Rules(LinearLabels()), [ChannelCommand(Op.SEED, b"0", label=b"1")]
    before, after = Runner(rules), Runner(rules)
    for runner in (before, after):
        runner.batch(90, [(100, b"0", b"2", None, False), (101, b"1", b"1", None, False)])
    before.batch(100, rows, asked)
    at = data.draw(st.integers(0, len(before.out) - 1))
    after.refused = {before.out[at][2]: "refused"}
    after.batch(100, rows, asked)
    assert before.out[:at] == after.out[:at]
    others = [each for each in before.out if each[0] != before.out[at][0]]
    assert others == [each for each in after.out if each[0] != before.out[at][0]]


def records(*labels, fin=()):
    return [(label, b"a", b"%d" % label, None, label in fin) for label in labels]


def test_a_label_is_given_up_where_its_turn_comes_and_no_sequence_is_spent():
    runner = Runner(Rules(LinearLabels()))
    runner.refused = {1: "too-large", 2: "refused"}
    runner.batch(100, records(1, 2))
    assert (runner.held, runner.rejects) == ([1, 2], []), "held ones are decided when they go out"
    runner.batch(150, records(0, 3))
    assert runner.out == [(b"a", 0, 0, 100), (b"a", 1, 3, 100)]
    assert runner.rejects == [(1, "too-large"), (2, "refused")]
    assert runner.gaps == [(b"a", 0, 1, 2, 50, "too-large"), (b"a", 0, 2, 3, 50, "refused")]
    runner.refused = {}
    runner.batch(160, [(9, b"a", b"1", None, False)])
    assert runner.rejects[-1] == (9, "late"), "the first copy took its label with it"


def test_a_held_one_that_becomes_deliverable_goes_out():
    runner = Runner(Rules(LinearLabels()))
    runner.batch(100, records(1))
    runner.refused = {0: "refused"}
    runner.batch(100, records(0))
    assert [row for _, _, row, _ in runner.out] == [1]


def test_a_fin_that_is_refused_ends_its_channel():
    runner = Runner(Rules(LinearLabels()))
    runner.refused = {1: "too-large"}
    runner.batch(100, records(0, 1, 2, fin=(1,)))
    assert runner.others == [("fin", b"a", 1)]
    assert runner.rejects == [(1, "too-large"), (2, "after-fin")]


def test_timers_and_commands_meet_refused_ones_too():
    rules = Rules(LinearLabels(), gap=Skip(30))
    runner = Runner(rules)
    runner.refused = {1: "too-large"}
    runner.batch(100, records(1, 2))
    runner.batch(130, [])
    assert runner.gaps == [(b"a", 0, 0, 1, 30, "timeout"), (b"a", 0, 1, 2, 30, "too-large")]
    runner.refused = {4: "too-large"}
    runner.batch(131, records(4, 5))
    runner.batch(132, [], [ChannelCommand(Op.SKIP, b"a")])
    assert runner.gaps[2:] == [(b"a", 0, 3, 4, 1, "operator"), (b"a", 0, 4, 5, 1, "too-large")]
    assert [(n, row) for _, n, row, _ in runner.out] == [(0, 2), (1, 5)]


def test_of_many_in_a_row_the_last_are_remembered_one_by_one():
    runner = Runner(Rules(LinearLabels()))
    count = 3 * SKIPPED_RANGES_MAX
    runner.refused = dict.fromkeys(range(1, count), "too-large")
    runner.batch(100, records(*range(count + 1)))
    assert len(runner.state.skipped) == SKIPPED_RANGES_MAX
    assert len(runner.gaps) == count - 1
    assert runner.places[count - 1] == ((100, 0), (b"a", 100, 0, count - 1))
    runner.refused = {}
    late = (1, count - SKIPPED_RANGES_MAX, count - 1)
    runner.batch(101, [(1000 + n, b"a", b"%d" % n, None, False) for n in late])
    assert runner.rejects[-3:] == [(1000 + n, "late") for n in late]
    gaps = [runner.places[1000 + n][1] for n in late]
    assert gaps == [None, None, (b"a", 100, 0, count - 1)], "of those before it is forgotten"


def test_the_last_label_of_a_sequence_that_ends_has_no_label_behind_it():
    def following(label):
        if label == "e":
            raise StopIteration
        return chr(ord(label) + 1)

    runner = Runner(Rules(CustomLabels("a", following), window=10))
    runner.refused = {4: "too-large"}
    runner.batch(5, [(n, b"k", b"abcde"[n : n + 1], None, False) for n in range(5)])
    assert runner.gaps == [(b"k", 0, 4, 5, 0, "too-large")]
