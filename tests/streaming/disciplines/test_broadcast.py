"""Shards that all see every record: order of arrival, homes, slices, state."""

import json

import numpy as np
import pyarrow as pa
import pytest

from sequencer.slices import slices, stretches
from streaming.arrow.schemas import RECORD
from streaming.disciplines import broadcast
from streaming.disciplines.broadcast import (
    BroadcastCore,
    BroadcastOperator,
    BroadcastPlan,
    pack_for_all,
    record_homes,
)
from tests.streaming.broadcast_harness import Stage, broadcast_plan
from tests.streaming.verify.worlds import Topics


class Numbers(BroadcastCore):
    """Counts commands and records, and writes each record with its number at its home."""

    def __init__(self, plan, shard):
        super().__init__()
        self.plan, self.shard, self.clock = plan, shard, 0

    def renew(self, since_ms):
        """It has no incarnations."""

    def step(self, work):
        self.clock += len(work.commands)
        mine = record_homes(work.records, self.plan.shards) == self.shard
        number = self.clock + np.arange(len(work.records))
        table = work.records.select(["key", "value", "headers"]).append_column(
            "number", pa.array(number)
        )
        self.totals.seen += int(mine.sum())
        yield "out", table.filter(pa.array(mine))
        self.clock += len(work.records)

    def unspend(self, counts):
        raise NotImplementedError  # nothing is refused here

    origin = destinations = unspend

    def dump(self):
        return json.dumps(self.clock)

    def load(self, state):
        self.clock = json.loads(state)


class NumbersOperator(BroadcastOperator):
    def core(self, shard):
        return Numbers(self.plan, shard)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize("stretch", [1, 30, broadcast.WORK_BYTES_MAX])
def test_all_shards_know_one_order_of_arrival(seed, shards, stretch, monkeypatch):
    monkeypatch.setattr(broadcast, "WORK_BYTES_MAX", stretch)
    topics = Topics()
    for n in range(40):
        topics.put("in", n % 3, n, b"k", b"%d" % n)
        if n % 9 == 0:
            topics.put("commands", 0, n, None, b"{}")
    plan = broadcast_plan(BroadcastPlan, shards=shards)
    stage = Stage(plan, NumbersOperator(plan), topics, seed)
    expected, clock = {}, 0
    while stage.left():
        before = dict(stage.read)
        stage.batch()
        some = {
            place: there[before.get(place, 0) : stage.read.get(place, 0)]
            for place, there in topics.records.items()
        }
        clock += sum(len(there) for place, there in some.items() if place[0] == "commands")
        for place in sorted(place for place in some if place[0] == "in"):
            for record in some[place]:
                expected[record.value] = clock
                clock += 1
    found = {r.value: int(r.header("number")) for r in topics.all("out")}
    assert found == expected
    assert stage.totals().seen == 40
    assert stage.totals().batches <= stage.batches * shards


@pytest.mark.parametrize("folder", ["", "rows"])
def test_a_stretch_of_which_nothing_is_left_makes_no_packs(folder, tmp_path):
    large_rows = folder and str(tmp_path / folder)
    assert len(pack_for_all(RECORD.empty_table(), [0, 1], large_rows=large_rows)) == 0


def test_slices_cut_between_records():
    assert list(slices(np.array([3, 3, 3, 9, 0, 1]), 6)) == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert list(slices(np.array([0, 0]), 6)) == [(0, 2)]
    assert list(slices(np.array([], np.int64), 6)) == []


def test_stretches_end_where_enough_has_come():
    assert list(stretches(np.array([3, 3, 1, 9, 0, 1]), 6)) == [(0, 2), (2, 4), (4, 6)]
    assert list(stretches(np.array([0, 0]), 6)) == [(0, 2)]
    assert list(stretches(np.array([], np.int64), 6)) == []
    sizes = np.random.default_rng(1).integers(0, 9, 200)
    for without in range(200):
        cuts = [each for each in stretches(sizes, 40) if each[1] <= without]
        assert cuts == list(stretches(np.delete(sizes, without), 40))[: len(cuts)]


def test_records_without_headers_pass():
    topics = Topics()
    topics.put("in", 0, 1, None, None)
    plan = broadcast_plan(BroadcastPlan, shards=1)
    Stage(plan, NumbersOperator(plan), topics).run()
    (record,) = topics.all("out")
    assert (record.key, record.value) == (None, None)
