"""When a replay lets timers fire: as a service does whose batches begin as far apart."""

from dataclasses import replace

from sequencer.channels import Rules, Skip
from sequencer.labels import LinearLabels
from streaming.replay.stepping import Replay
from tests.streaming.disciplines.channels.plans import plan


def record(label, offset, timestamp):
    headers = [{"key": "label", "value": b"%d" % label}]
    place = {"topic": 0, "partition": 0, "offset": offset, "timestamp": timestamp}
    return place | {"key": b"k", "value": b"", "headers": headers}


def replayed(*windows):
    made = replace(plan(Rules(LinearLabels(), gap=Skip(2_000))), shards=1, state_partitions=1)
    replay = Replay(made, writes=False)
    for since_ms, rows in windows:
        replay.take(rows, since_ms, since_ms + 5_000)
    return replay.totals


def test_a_gap_does_not_end_before_what_came_in_the_same_window():
    first = [record(0, 0, 4_000), record(2, 1, 4_900)]
    totals = replayed((0, first), (5_000, [record(1, 2, 5_100)]))
    assert (totals.gaps, totals.rejected, totals.delivered) == (0, {}, 3)


def test_a_gap_ends_while_nothing_comes():
    first = [record(0, 0, 4_000), record(2, 1, 4_900)]
    totals = replayed((0, first), (10_000, [record(1, 2, 10_100)]))
    assert (totals.gaps, totals.rejected, totals.delivered) == (1, {"late": 1}, 2)
