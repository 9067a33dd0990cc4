"""Disorder against a naive model; how the input falls into batches does not change displacements."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from sequencer.channels import Arrivals, Disorder, Rules, ShardState, step
from sequencer.labels import LinearLabels
from tests.seeds import examples

RULES = Rules(LinearLabels())


def arrivals(records, fins=()):
    """Of (channel, label) pairs."""
    return Arrivals(
        pa.array([channel for channel, _ in records], pa.binary()),
        pa.array([b"%d" % label for _, label in records], pa.binary()),
        pa.nulls(len(records), pa.binary()),
        np.isin(np.arange(len(records)), fins),
    )


def measured(batches, fins=()):
    """Total disorder of (now, records) in turn."""
    state, whole = ShardState.empty(), Disorder()
    for now, records in batches:
        outcome = step(state, arrivals(records, fins), now, RULES)
        state, whole = outcome.state, whole + outcome.disorder
    return whole


def naive(batches):
    """(labels displaced, ms late) of what came late; how many came in order."""
    seen, behind, in_order = {}, [], 0
    for now, records in batches:
        for channel, label in records:
            mine = seen.setdefault(channel, {})
            if label in mine:
                continue
            above = [at for other, at in mine.items() if other > label]
            mine[label] = now
            if above:
                behind.append((max(mine) - label, now - min(above)))
            else:
                in_order += 1
    return sorted(behind), in_order


def pairs(disorder):
    return sorted(zip(disorder.displaced.tolist(), disorder.late_ms.tolist(), strict=True))


RECORDS = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), st.integers(0, 25)), max_size=60)


@settings(max_examples=examples(200), deadline=None)
@given(RECORDS, st.data())
def test_agrees_with_the_naive_model(records, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(records)), max_size=5)))
    batches = [
        (1000 + 10 * number, records[first:stop])
        for number, (first, stop) in enumerate(pairwise([0, *cuts, len(records)]))
    ]
    behind, in_order = naive(batches)
    found = measured(batches)
    assert pairs(found) == behind
    assert found.in_order == in_order
    at_once = measured([(1000, records)])
    assert sorted(at_once.displaced.tolist()) == sorted(each for each, _ in behind)


def test_channels_that_take_the_plain_step_are_measured_too():
    """A FIN makes a channel unusual; so does a label that was given up."""
    records = [(b"a", 3), (b"a", 0), (b"a", 2), (b"a", 1)]
    assert pairs(measured([(5, records[:2]), (25, records[2:])], fins=[])) == [
        (1, 20),
        (2, 20),
        (3, 0),
    ]
    whole = measured([(5, records)], fins=[0])
    assert (pairs(whole), whole.in_order) == ([(1, 0), (2, 0), (3, 0)], 1)


def test_a_new_epoch_is_no_disorder():
    state = step(ShardState.empty(), arrivals([(b"a", 0), (b"a", 9)]), 5, RULES).state
    newer = Arrivals(
        pa.array([b"a"] * 2, pa.binary()),
        pa.array([b"0", b"1"], pa.binary()),
        pa.array([b"1"] * 2, pa.binary()),
        np.zeros(2, dtype=bool),
    )
    assert not len(step(state, newer, 6, RULES).disorder.displaced)
