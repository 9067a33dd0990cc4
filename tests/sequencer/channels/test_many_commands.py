"""Commands to all channels that wait: the time grows with their number, not with its square."""

import time

from sequencer.channels import ChannelCommand, Op, Rules, Skip
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


def test_the_time_for_late_messages_beside_a_command_does_not_grow_with_what_is_held():
    """Each late one names its gap."""
    held, late = 1_000_000, 80_000
    runner = Runner(Rules(LinearLabels(), gap=Skip(50), held_max=held))
    runner.batch(5, [(0, b"a", b"%d" % late, None, False)])
    runner.batch(60, [])
    runner.batch(61, [(n, b"b", b"%d" % n, None, False) for n in range(1, held + 1)])
    rows = [(held + 1 + n, b"a", b"%d" % n, None, False) for n in range(late)]
    began_s = time.process_time()
    runner.batch(62, rows, [ChannelCommand(Op.RESET, b"nobody")])
    assert time.process_time() - began_s < 5, "with the product it is 15 s"
    assert {runner.places[row][1] for row, *_ in rows} == {(b"a", 5, 0, 0)}
    assert len(runner.held) == held
