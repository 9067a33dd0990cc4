"""Labels of custom sequences that lie too far away: the same whatever comes in one batch."""

import numpy as np
import pyarrow as pa
import pytest

from sequencer.channels import Arrivals, Rules, ShardState, step
from sequencer.custom_labels import CustomLabels
from tests.sequencer.channels.histories import Runner

RULES = Rules(
    CustomLabels("L0", lambda text: f"L{int(text[1:]) + 1}"), window=8, retire_after_ms=100
)
FAR = RULES.search + 3
"""Too far from the first label, but not from the last one of a batch of some records."""


@pytest.mark.parametrize("size", [1, 5])
def test_of_a_bad_label_with_a_bad_epoch_the_label_counts(size):
    runner = Runner(RULES)
    rows = [(0, b"k", b"L%d" % FAR, b"e", False), (1, b"k", b"L0", b"e", False)]
    rows += [(2 + n, b"k", b"L%d" % n, None, False) for n in range(3)]
    for first in range(0, len(rows), size):
        runner.batch(5, rows[first : first + size])
    assert sorted(runner.rejects) == [(0, "bad-label"), (1, "bad-epoch")]
    assert [row for _, _, row, _ in runner.out] == [2, 3, 4]


def test_a_bad_epoch_is_none_that_disorder_is_measured_in():
    columns = [[b"k"] * 3, [b"L0", b"L1", b"L0"], [b"e", None, None]]
    arrivals = Arrivals(*(pa.array(each, pa.binary()) for each in columns), np.zeros(3, np.bool_))
    disorder = step(ShardState.empty(), arrivals, 5, RULES).disorder
    assert (disorder.in_order, disorder.displaced.tolist()) == (1, [1])


@pytest.mark.parametrize("others", [0, 9])
def test_a_label_that_is_too_far_does_not_keep_its_channel(others):
    """Nor does another record that is rejected for what it shows."""
    runner = Runner(RULES)
    runner.batch(5, [(0, b"k", b"L0", None, False)])
    far = [(1 + n, b"k", b"L%d" % FAR, None, False) for n in range(1 + others)]
    runner.batch(60, far)
    runner.batch(105, [])
    assert runner.others == [("retired", b"k", 1)]
    assert runner.rejects == [(row, "bad-label") for row, *_ in far]
