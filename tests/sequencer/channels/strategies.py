"""Draws what channels get: rules (also for the naive model), records in batches, commands."""

from dataclasses import replace

from hypothesis import strategies as st

from sequencer.channels import (
    WAIT,
    ChannelCommand,
    Full,
    Op,
    Rules,
    Skip,
)
from sequencer.channels.delays import Quantile
from sequencer.custom_labels import CustomLabels
from sequencer.labels import CyclicLabels, LinearLabels
from tests.sequencer.channels.histories import Runner
from tests.sequencer.channels.model import NaiveChannels

CUSTOM = CustomLabels("L0", lambda text: f"L{int(text[1:]) + 1}")
"""One for all histories: a sequence walks its first 100,000 labels when it is made."""

BAD_LABELS = [None, b"", b"-1", b"x", b"1 ", b"99999999999999999999", b"9223372036854775808"]
BAD_EPOCHS = [b"", b"-1", b"e", b"9999999999999999999"]


def numeric_place(labels, start, step_, modulus=None):
    def to_place(text):
        number = NaiveChannels.number(text)
        if number is None or (modulus is None and number < start):
            return None
        if modulus is None:
            return (number - start) // step_ if (number - start) % step_ == 0 else None
        walk = [(start + i * step_) % modulus for i in range(labels.cycle)]
        return walk.index(number) if number in walk else None

    return to_place


@st.composite
def setups(draw):
    kind = draw(st.sampled_from(["linear", "linear", "cyclic", "custom"]))
    if kind == "linear":
        start, step_ = draw(st.sampled_from([(0, 1), (5, 3)]))
        labels = LinearLabels(start, step_)
        to_place = numeric_place(labels, start, step_)
        window = draw(st.sampled_from([2, 5, 1000]))
    elif kind == "cyclic":
        modulus, start, step_ = draw(st.sampled_from([(8, 6, 1), (16, 3, 6), (32, 0, 1)]))
        labels = CyclicLabels(modulus, start, step_)
        to_place = numeric_place(labels, start, step_, modulus)
        window = draw(st.integers(1, (labels.cycle - 1) // 2))
    else:
        labels = CUSTOM
        names = {f"L{i}".encode(): i for i in range(1004)}
        to_place = names.get
        window = draw(st.sampled_from([2, 8]))
    full = draw(st.sampled_from(list(Full)))
    ask_after = draw(st.sampled_from([None, None, 1, 6]))
    gap_after = draw(st.sampled_from([None, 0, 15]))
    rules = Rules(
        labels,
        gap=WAIT if gap_after is None else Skip(gap_after),
        held_max=draw(st.sampled_from([1, 3, 100])),
        window=window,
        full=full,
        retire_after_ms=draw(st.sampled_from([25, 10_000])),
        pass_unlabelled=draw(st.booleans()),
        settle_ms=draw(st.sampled_from([None, 0, 15, 40])) if kind == "linear" else None,
        ask_ms=ask_after,
    )
    model = NaiveChannels(
        cycle=labels.cycle,
        to_place=to_place,
        window=window,
        held_max=rules.held_max,
        full=full.value,
        gap_after=gap_after,
        retire_after=rules.retire_after_ms,
    )
    model.searched, model.passes = kind == "custom", rules.pass_unlabelled
    model.settle, model.own["ask"] = rules.settle_ms, ask_after
    return labels, rules, model


@st.composite
def stories(
    draw, keys=(b"", b"a", b"b", b"c\xff"), pauses=tuple(range(21)), rows_max=60, cuts=(0, 5)
):
    """Rules, a model, records, and their batches; ``cuts``: the fewest and most between them."""
    labels, rules, model = draw(setups())
    positions = st.one_of(st.integers(0, 6), st.integers(0, 30))
    # Half of the stories are calm: no epochs and no FIN, so that the vectorised way decides.
    calm = draw(st.booleans())
    epochs = st.none() if calm else st.sampled_from([None] * 6 + [b"0", b"1", b"002", *BAD_EPOCHS])
    wrong = [*BAD_LABELS, *[None] * 12 * rules.pass_unlabelled]
    record = st.tuples(
        st.sampled_from([*keys, *keys, None]),
        st.one_of(positions, positions, positions, st.sampled_from(wrong)),
        epochs,
        st.just(False) if calm else st.sampled_from([False] * 9 + [True]),
    )
    rows = [
        (row, key, str(labels.at(p)).encode() if isinstance(p, int) else p, epoch, fin)
        for row, (key, p, epoch, fin) in enumerate(draw(st.lists(record, max_size=rows_max)))
    ]
    places = st.integers(0, len(rows))
    bounds = [0, *sorted(draw(st.lists(places, min_size=cuts[0], max_size=cuts[1]))), len(rows)]
    times = draw(st.lists(st.sampled_from(pauses), min_size=len(bounds), max_size=len(bounds)))
    return rules, model, rows, bounds, times


@st.composite
def other_rules(draw, rules, globs, times=(None, 0, 15, 40)):
    """Rules of some channels, for the step and for the model; they may change at any time."""
    others = []
    for glob in draw(st.lists(st.sampled_from(globs), max_size=3)):
        gap_after = draw(st.sampled_from(times))
        widest = 1000 if rules.labels.cycle is None else (rules.labels.cycle - 1) // 2
        differs = dict(
            gap_after=gap_after,
            held_max=draw(st.sampled_from([1, 3, 100])),
            window=min(draw(st.sampled_from([1, 4, 1000])), widest),
            full=draw(st.sampled_from(["reject", "skip"])),
            retire_after=draw(st.sampled_from([25, 60, 10_000])),
            drop=draw(st.booleans()),
            ask=draw(st.sampled_from([None, 1, 6])),
        )
        if rules.labels.searched:
            differs["window"] = rules.window
        others.append((glob, differs))
    return replace(
        rules, others=tuple((glob, _rules(rules, each)) for glob, each in others)
    ), others


def adapting(data, rules, model, by):
    """A runner whose gap times follow from delays (``by``), by rules that the model has, too."""
    runner, own = Runner(rules), data.draw(st.sampled_from(by))
    runner.rules, model.ruled = data.draw(other_rules(rules, ["b"], times=[*by, 15]))
    runner.rules = replace(runner.rules, gap=policy(own))
    model.own["gap_after"] = own
    return runner


def policy(gap_after):
    if isinstance(gap_after, Quantile):
        return Skip(gap_after.most_ms, gap_after)
    return WAIT if gap_after is None else Skip(gap_after)


def _rules(own, differs):
    return replace(
        own,
        gap=policy(differs["gap_after"]),
        held_max=differs["held_max"],
        window=differs["window"],
        full=Full(differs["full"]),
        retire_after_ms=differs["retire_after"],
        drop_duplicates=differs["drop"],
        ask_ms=differs["ask"],
    )


def _answer(draw):
    """Labels that will not come: where they begin and end, and the epoch."""
    first = draw(st.integers(0, 8))
    wrong = draw(st.integers(0, 9)) == 0
    stop = b"x" if wrong else first + draw(st.sampled_from([0, 1, 1, 3, 30]))
    return first, stop, draw(st.sampled_from([0, 0, 0, 1]))


@st.composite
def commands(draw):
    """Some commands, for the step and for the model."""
    found = []
    for _ in range(draw(st.integers(0, 4))):
        op = draw(st.sampled_from(list(Op)))
        key = draw(st.sampled_from([b"a", b"a", b"b\xff", b"b\xff", b"new", None]))
        if op is Op.NOT_COMING:
            found.append((op, key or b"a", *_answer(draw)))
            continue
        wanted = op is Op.SEED or (op is Op.SKIP and draw(st.booleans()))
        position = draw(st.one_of(st.integers(0, 8), st.integers(0, 40))) if wanted else None
        label = (
            draw(st.sampled_from([b"x", b"1 "])) if wanted and not draw(st.integers(0, 9)) else None
        )
        blocked = draw(st.sampled_from([0, 5, 30]))
        found.append((op, key, position, label, blocked, draw(st.integers(0, 4)) == 0))
    return found


def as_command(labels, given):
    if given[0] is Op.NOT_COMING:
        op, key, *ends, epoch = given
        first, stop = (e if e == b"x" else str(labels.at(e)).encode() for e in ends)
        return ChannelCommand(op, key, label=stop, first=first, epoch=epoch)
    op, key, position, label, blocked, dry = given
    if position is not None and label is None:
        label = str(labels.at(position)).encode()
    return ChannelCommand(op, key, label=label, blocked_ms=0 if key else blocked, dry_run=dry)
