"""Messages of several partitions by time, however they come."""

from random import Random

import pytest

from streaming.cli.by_time import WAITING_MAX, ByTime
from tests.seeds import seeds


class Message:
    def __init__(self, partition, offset, ms):
        self.home, self.offset, self.timestamp = ("t", partition), offset, ms


def merged(partitions):
    """One message after another: the earliest of the partitions' next ones."""
    left = [list(each) for each in partitions]
    while any(left):
        yield min((each[0].timestamp, number, each) for number, each in enumerate(left) if each)[
            2
        ].pop(0)


@pytest.mark.parametrize("seed", seeds(20, 1_000))
def test_the_order_is_one_however_messages_come(seed):
    rng = Random(seed)
    partitions = [
        [Message(number, offset, rng.randrange(30)) for offset in range(rng.randrange(20))]
        for number in range(rng.randrange(1, 5))
    ]
    by_time = ByTime(("t", number) for number in range(len(partitions)))
    left, found = {n: list(each) for n, each in enumerate(partitions)}, []
    while left:
        number = rng.choice(list(left))
        if left[number]:
            by_time.put(left[number].pop(0))
        else:
            by_time.end(("t", number))
            del left[number]
        found += by_time.ready()
    assert found == list(merged(partitions))


def test_a_partition_far_ahead_waits():
    by_time = ByTime([("t", 0), ("t", 1)])
    for offset in range(WAITING_MAX):
        by_time.put(Message(0, offset, offset))
    assert by_time.paces() == ({("t", 0)}, set())
    assert by_time.paces() == (set(), set())
    by_time.end(("t", 1))
    assert len(list(by_time.ready())) == WAITING_MAX
    assert by_time.paces() == (set(), {("t", 0)})
