"""Channels of `labels.start = "first-seen"` that hold nothing yet."""

import pytest

from sequencer.channels import ChannelCommand, Op, Rules
from sequencer.labels import LinearLabels
from tests.sequencer.channels.histories import Runner


@pytest.mark.parametrize("to", [None, b"4"])
def test_a_skip_gives_up_nothing_where_the_first_label_is_not_known(to):
    """Only a record without a label came; the labels that come are none that were given up."""
    runner = Runner(Rules(LinearLabels(), settle_ms=10, pass_unlabelled=True))
    runner.batch(5, [(0, b"k", None, None, False)])
    runner.batch(6, [], [ChannelCommand(Op.SKIP, b"k", label=to)])
    assert (runner.answers, runner.gaps) == ([(0, 0, None)], [])
    runner.batch(7, [(1, b"k", b"0", None, False)])
    runner.batch(17, [])
    assert [row for _, _, row, _ in runner.out] == [0, 1]
    assert (runner.others, runner.gaps) == ([("started", b"k", 0, 0)], [])
