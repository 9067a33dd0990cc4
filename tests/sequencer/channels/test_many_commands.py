"""Commands to all channels that wait: the time grows with their number, not with its square."""

import time

from sequencer.channels import ChannelCommand, Op, Rules
from sequencer.labels import LinearLabels
from tests.sequencer.channels.histories import Runner

COUNT = 40_000


def test_the_time_for_many_channels_does_not_grow_with_their_square():
    runner = Runner(Rules(LinearLabels()))
    runner.batch(7, [(n, b"k%d" % n, b"1", None, False) for n in range(COUNT)])
    began_s = time.process_time()
    runner.batch(8, [], [ChannelCommand(Op.SKIP, None)])
    assert time.process_time() - began_s < 15, "with the square it is 30 s"
    assert runner.answers == [(COUNT, COUNT, None)]
    assert sorted(row for _, _, row, _ in runner.out) == list(range(COUNT))
