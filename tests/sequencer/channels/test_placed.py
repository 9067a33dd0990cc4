"""Commands among records, against the naive model that takes one after the other."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.channels import ChannelCommand, Op, Rules
from sequencer.custom_labels import CustomLabels
from sequencer.labels import LinearLabels
from tests.seeds import examples
from tests.sequencer.channels.histories import Runner, batches, how_of, judge
from tests.sequencer.channels.strategies import as_command, commands, stories

KEYS = (b"a", b"b\xff")


@st.composite
def placed(draw, labels, count):
    """Commands, each with the record before which it stands."""
    some = draw(commands()) + draw(commands())
    some = [each for each in some if each[1] is not None and each[0] is not Op.NOT_COMING]
    at = sorted(draw(st.lists(st.integers(0, count), min_size=len(some), max_size=len(some))))
    return [(n, as_command(labels, each)) for n, each in zip(at, some, strict=True)]


def taken(model, now, records, among):
    """The model takes records, and commands among them; its answers."""
    answers = []
    for at in range(len(records) + 1):
        here = [command for n, command in among if n == at]
        answers += [model.command_one(c.op.value, c.channel, c.label, c.dry_run) for c in here]
        if at < len(records):
            model.take(now, records[at])
    return answers


@settings(max_examples=examples(150), deadline=None)
@given(stories(keys=KEYS, pauses=(0, 0, 7, 30)), st.data())
def test_agree_with_the_naive_model(story, data):
    rules, model, *_ = story
    model.notices = data.draw(st.booleans())
    runner, answers = Runner(replace(rules, notices=model.notices)), []
    refused = st.dictionaries(st.integers(0, 60), st.sampled_from(["too-large", "refused"]))
    runner.refused = model.refused = data.draw(refused)
    for now, records in batches(story):
        asked = [as_command(rules.labels, each) for each in data.draw(commands())]
        among = data.draw(placed(rules.labels, len(records)))
        for c in asked:
            how = how_of(c)
            answers.append(model.command(now, c.op.value, c.channel, **how))
        model.clock = max(now, model.clock)
        answers += taken(model, now, records, among)
        model.end_of_batch(now)
        runner.batch(now, records, asked, among)
        assert runner.answers == answers
        judge(runner, model)


@settings(max_examples=examples(100), deadline=None)
@given(stories(keys=KEYS), st.data())
def test_any_split_into_batches_gives_the_same(story, data):
    """Incarnations are times, which move on with batches: their order is the same."""
    rules, _, rows, bounds, _ = story
    rules = Rules(
        rules.labels, held_max=rules.held_max, window=rules.window, full=rules.full, notices=True
    )
    among = data.draw(placed(rules.labels, len(rows)))
    whole, parts, single = Runner(rules), Runner(rules), Runner(rules)
    whole.batch(7, rows, placed=among)
    for runner, cuts in ((parts, bounds), (single, [*range(len(rows) + 1), len(rows)])):
        batches = list(enumerate(pairwise(cuts)))
        for n, (first, stop) in batches:
            behind = n == len(batches) - 1
            mine = [each for each in among if first <= each[0] < stop + behind]
            here = [(at - first, command) for at, command in mine]
            runner.batch(7 + n, rows[first:stop], placed=here)
    assert shown(parts) == shown(single) == shown(whole)


def shown(runner):
    """What came of it, with each channel's incarnations by their rank."""
    born = sorted({(o[0], o[3]) for o in runner.out} | {(t[0], t[2]) for t in runner.told})
    rank = {each: sum(other[0] == each[0] and other < each for other in born) for each in born}
    return (
        sorted((key, n, row, rank[key, at]) for key, n, row, at in runner.out),
        sorted((key, n, rank[key, at], *more) for key, n, at, *more in runner.told),
        sorted(runner.rejects),
        {row: None if after is None else after[1] for row, (after, _) in runner.places.items()},
        sorted((gap[:4], gap[5]) for gap in runner.gaps),
        sorted(runner.others),
        sorted(runner.held),
        runner.answers,
    )


def sent(*labels):
    return [(label, b"a", b"%d" % label, None, False) for label in labels]


def test_a_reset_stands_between_what_came_before_it_and_what_comes_after():
    runner = Runner(Rules(LinearLabels()))
    records = [(0, b"a", b"0", None, False), (1, b"a", b"2", None, False)]
    records += [(2, b"a", b"0", None, False), (3, b"b", b"0", None, False)]
    runner.batch(7, records, placed=[(2, ChannelCommand(Op.RESET, b"a"))])
    assert runner.out == [(b"a", 0, 0, 7), (b"a", 0, 2, 8), (b"b", 0, 3, 7)]
    assert (runner.rejects, runner.places[1]) == ([(1, "reset")], ((7, 0), None))
    runner.batch(7, [(4, b"c", b"0", None, False)])
    assert runner.out[-1] == (b"c", 0, 4, 8), "no incarnation comes twice"


def test_a_custom_label_that_a_seed_brings_into_reach():
    rules = Rules(CustomLabels("L0", lambda text: f"L{int(text[1:]) + 1}"), window=8)
    far = [rules.search - 1, 2 * rules.search - 2]
    seeds = [(0, ChannelCommand(Op.SEED, b"a", label=b"L%d" % each)) for each in far]
    runner = Runner(rules)
    runner.batch(7, [(0, b"a", b"L%d" % far[1], None, False)], placed=seeds)
    assert [row for _, _, row, _ in runner.out] == [0]
