"""Random histories of channels, run by the step, and judged against the naive model."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sequencer.channels import (
    WAIT,
    Arrivals,
    ShardState,
    step,
)
from sequencer.channels.outcome import REASONS, Reason
from sequencer.labels import label_or_none


class Runner:
    """Feeds batches to the step, following each record by its number."""

    def __init__(self, rules):
        self.rules = rules
        self.state = ShardState.empty()
        self.held = []
        self.out, self.rejects, self.gaps, self.others = [], [], [], []
        self.answers, self.dropped, self.passed = [], [], 0
        self.places = {}  # of each reject: the delivery before it, and its label's gap
        self.told = []  # notices: key, sequence, incarnation, kind, position
        self.wanted, self.answered = [], 0
        self.refused = {}  # by the records' numbers

    def batch(self, now, records, commands=(), placed=()):
        arrivals = Arrivals(
            pa.array([r[1] for r in records], pa.binary()),
            pa.array([r[2] for r in records], pa.binary()),
            pa.array([r[3] for r in records], pa.binary()),
            np.array([r[4] for r in records], dtype=bool),
        )
        numbers = self.held + [r[0] for r in records]
        refused = {
            row: Reason(REASONS.index(self.refused[number]))
            for row, number in enumerate(numbers)
            if number in self.refused
        }
        outcome = step(self.state, arrivals, now, self.rules, commands, refused, placed)
        self.answers += [
            (a.channels, a.given_up, a.refused and a.refused.value) for a in outcome.answers
        ]
        rows = self.held + [r[0] for r in records]
        self.passed += outcome.passed
        self.answered += outcome.answered
        self.wanted += map(tuple, outcome.wanted)
        keys = outcome.channels.to_pylist()
        d = outcome.delivered
        numbers = (d.channel.tolist(), d.sequence.tolist(), d.row.tolist(), d.incarnation.tolist())
        for c, n, r, i in zip(*numbers, strict=True):
            if r >= 0:
                self.out.append((keys[c], n, rows[r], i))
                continue
            event = outcome.notices[-1 - r]
            assert (event.channel, event.incarnation) == (keys[c], i)
            self.told.append((keys[c], n, i, event.kind, event.position))
        rejected = outcome.rejected
        columns = (rejected.row, rejected.reason, rejected.incarnation, rejected.sequence)
        for r, reason, born, n in zip(*(each.tolist() for each in columns), strict=True):
            self.rejects.append((rows[r], REASONS[reason]))
            self.places[rows[r]] = ((born, n) if n >= 0 else None, rejected.gaps.get(r))
        self.dropped += [rows[r] for r in rejected.row[outcome.dropped].tolist()]
        notices = [r for r in d.row.tolist() if r < 0]
        assert sorted(notices) == [-1 - n for n in reversed(range(len(outcome.notices)))]
        ended = sorted(
            [*d.row[d.row >= 0].tolist(), *rejected.row.tolist(), *outcome.held_row.tolist()]
        )
        assert ended == list(range(len(rows))), "each record ends in exactly one place"
        self.held = [rows[r] for r in outcome.held_row.tolist()]
        self.state = outcome.state
        for e in outcome.events:
            f = e.fields
            if e.kind == "gap":
                gap = (
                    e.channel,
                    e.epoch,
                    e.position,
                    e.position + f["count"],
                    f["waited_ms"],
                    f["reason"],
                )
                self.gaps.append(gap)
                assert f["from"] == self.rules.labels.at(e.position)
                assert f["to"] == label_or_none(self.rules.labels, e.position + f["count"])
            elif e.kind == "fin":
                self.others.append(("fin", e.channel, e.position))
            elif e.kind == "epoch":
                self.others.append(("epoch", e.channel, e.epoch))
            elif e.kind == "started":
                self.others.append(("started", e.channel, e.epoch, e.position))
                assert f["label"] == self.rules.labels.at(e.position)
            else:
                self.others.append(("retired", e.channel, f["sequence"]))


def judge(runner, model):
    assert sorted(runner.out) == sorted(model.out)
    for key in {o[0] for o in model.out}:
        mine = [o for o in runner.out if o[0] == key]
        assert mine == sorted(mine, key=lambda o: (o[3], o[1])), "a channel's rows come in order"
    assert sorted(runner.rejects) == sorted(model.rejects)
    assert runner.places == model.places
    assert sorted(runner.dropped) == sorted(model.dropped)
    assert sorted(runner.told) == sorted(model.told)
    assert sorted(runner.gaps) == sorted(model.gaps)
    assert sorted(runner.others) == sorted(model.others)
    assert sorted(runner.held) == model.held_rows()
    assert runner.passed == len(model.passed)
    at = runner.rules.labels.at
    assert sorted(runner.wanted) == sorted(
        (k, e, at(a), at(b), n) for k, e, a, b, n in model.wanted
    )
    assert runner.answered == model.answered


def batches(story, now=1000):
    """Yield when each batch of a story comes, and its records."""
    _, _, rows, bounds, times = story
    for (first, stop), pause in zip(pairwise(bounds), times, strict=False):
        now += pause
        yield now, rows[first:stop]


def follow(runner, model, now, records, asked=()):
    """Give a batch to the model and to the runner, and judge what became of it."""
    answers = [model.command(now, c.op.value, c.channel, **how_of(c)) for c in asked]
    for record in records:
        model.take(now, record)
    model.end_of_batch(now)
    before = len(runner.answers)
    runner.batch(now, records, asked)
    assert runner.answers[before:] == answers
    judge(runner, model)


def any_split(new_runner, rows, bounds, names=("out", "rejects", "gaps", "others", "held")):
    """Judge that records in one batch, in these, and one by one give the same."""
    whole, parts, single = new_runner(), new_runner(), new_runner()
    whole.batch(7, rows)
    for first, stop in pairwise(bounds):
        parts.batch(7, rows[first:stop])
    for record in rows:
        single.batch(7, [record])
    for runner in (parts, single):
        for name in names:
            assert sorted(getattr(runner, name)) == sorted(getattr(whole, name))
        assert runner.places == whole.places


def timeless(rules):
    """Rules by which nothing happens for the time of a batch: there its split matters."""
    settle_ms = None if rules.settle_ms is None else 10**9
    return replace(rules, gap=WAIT, retire_after_ms=10**9, settle_ms=settle_ms)


def how_of(command):
    """The command's particulars, as the model takes them."""
    return dict(
        label=command.label,
        blocked=command.blocked_ms,
        dry=command.dry_run,
        first=command.first,
        epoch=command.epoch,
    )
