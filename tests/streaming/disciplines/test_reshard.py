"""State moved to other shards in the middle of a history: nobody can tell from what comes out."""

import itertools
import json
import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sequencer.channels import Full, Rules, ShardState, Skip
from sequencer.channels.delays import no_delays, with_samples
from sequencer.labels import LinearLabels
from streaming.arrow.ipc import to_body
from streaming.arrow.totals import Totals
from streaming.disciplines.channels import reshard as moving
from streaming.disciplines.channels import shard_files
from streaming.disciplines.channels.codec import decode_shard, encode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.describe import describe as describe_channels
from streaming.disciplines.channels.records import arrival_schema, labelled, record_schema
from streaming.disciplines.channels.reshard import reshard as reshard_channels
from streaming.disciplines.channels.shard_files import ShardFiles
from streaming.disciplines.channels.sql import header_name
from streaming.disciplines.channels.waiting import describe_waiting
from streaming.disciplines.groups.batch.codec import encode_first
from streaming.disciplines.groups.batch.core import BatchOperator as GroupOperator
from streaming.disciplines.groups.batch.describe import describe as describe_group
from streaming.disciplines.groups.batch.reshard import reshard as reshard_groups
from streaming.disciplines.groups.plan import BatchPlan
from streaming.disciplines.multicast.batch.core import BatchOperator as MulticastOperator
from streaming.disciplines.multicast.batch.describe import describe as describe_multicast
from streaming.disciplines.multicast.batch.reshard import reshard as reshard_multicast
from streaming.disciplines.multicast.plan import BatchMulticastPlan
from streaming.disciplines.reshard import rekeyed
from streaming.disciplines.state_keys import shard_keys, shard_of_name
from streaming.disciplines.state_row import StateRow
from tests.seeds import seeds
from tests.streaming.broadcast_harness import Stage, broadcast_plan
from tests.streaming.disciplines.channels.plans import plan as channel_plan
from tests.streaming.disciplines.multicast.histories import history
from tests.streaming.exchange_harness import given_topics
from tests.streaming.verify.group_worlds import random_groups

SIZES = ((1, 1), (2, 2), (3, 2), (8, 8), (5, 1), (8, 3))
"""Shards and state partitions."""


def run(stage, operator, reshard, describe, seed):
    """Work through all, with moves between batches (none where ``reshard`` is None)."""
    sizes = random.Random(seed)
    for batch in itertools.count():
        if not stage.left():
            return stage
        if reshard is not None and stage.states and sizes.random() < 0.4:
            shards, partitions = sizes.choice(SIZES)
            before = told(stage, describe), replace(stage.totals(), batches=0)
            after = replace(stage.plan, shards=shards, state_partitions=partitions)
            rows = sorted(stage.states.items())
            moved = reshard(stage.plan, after, rows)
            stage.plan, stage.operator = after, operator(after)
            stage.states = dict(moved.rows)
            assert (told(stage, describe), stage.totals()) == before
        stage.rng = random.Random(1000 * seed + batch)  # the same batches for any shards
        stage.batch()
    raise AssertionError


def told(stage, describe):
    found = [each for core in stage.cores() for each in describe(core)]
    return sorted(found, key=lambda each: json.dumps(each, sort_keys=True))


def came_out(stage):
    """All that was written, by topic and key, in order."""
    found = {}
    for topic in ("out", "rejects", "events"):
        for record in stage.topics.all(topic):
            place = (topic, record.key) if topic == "out" else topic
            found.setdefault(place, []).append((record.value, record.headers))
    return {
        place: rows if isinstance(place, tuple) else Counter(map(repr, rows))
        for place, rows in found.items()
    }


@pytest.mark.parametrize("seed", range(6))
def test_groups(seed):
    ends = []
    for reshard in (None, reshard_groups):
        world = random_groups(seed, commands=0.1, steps=120)
        plan = broadcast_plan(
            BatchPlan, shards=2, membership=encode_first(world.configured), retire_after_ms=400
        )
        stage = Stage(plan, GroupOperator(plan), given_topics(world), seed)
        ends.append(came_out(run(stage, GroupOperator, reshard, describe_group, seed)))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("seed", range(6))
def test_multicast(seed):
    ends = []
    for reshard in (None, reshard_multicast):
        plan = broadcast_plan(BatchMulticastPlan, shards=2, retire_after_ms=400)
        stage = Stage(plan, MulticastOperator(plan), history(seed), seed)
        ends.append(came_out(run(stage, MulticastOperator, reshard, describe_multicast, seed)))
    assert ends[0] == ends[1]


RULES = Rules(
    LinearLabels(),
    gap=Skip(70),
    held_max=6,
    window=25,
    full=Full.REJECT,
    retire_after_ms=300,
    ask_ms=20,
)
CHANNELS = [b"k%d" % n for n in range(12)] + [b"", b"\xff" * 40]


def channel_records(rng, count):
    for at in range(count):
        label = max(0, at // 30 + rng.randrange(-6, 7))
        headers = [{"key": "label", "value": b"%d" % label}]
        if rng.random() < 0.02:
            headers.append({"key": "epoch", "value": b"1"})
        place = {"topic": 0, "partition": 0, "offset": at, "timestamp": 1000 + at}
        yield {**place, "key": rng.choice(CHANNELS), "value": b"v%d" % at, "headers": headers}


def step_channels(plan, states, records, now_ms):
    """One batch in all shards: the new states, and what they write."""
    written = []
    for number, key in enumerate(shard_keys(plan.shards, plan.state_partitions)):
        mine = [each for each in records if shard_of_name(each["key"], plan.shards) == number]
        table = pa.Table.from_pylist(mine, schema=record_schema(plan))
        table = labelled(table, arrival_schema(plan), header_name(plan.label)).combine_chunks()
        shard = decode_shard(
            states.get(key, StateRow()), record_schema(plan), ShardFiles.of(plan, key)
        )
        after, writes = step_shard(
            shard, [to_body(each) for each in table.to_batches()], now_ms, plan
        )
        states[key] = encode_shard(after)
        written += [(topic, repr(row)) for topic, rows in writes for row in rows.to_pylist()]
    return written


def described_channels(plan, states):
    shards = [
        decode_shard(state, record_schema(plan), ShardFiles.of(plan, key))
        for key, state in states.items()
    ]
    found = [each for shard in shards for each in describe_channels(shard, plan.rules)]
    return sorted(found, key=lambda each: json.dumps(each["channel"])), Totals.sum(
        shard.totals for shard in shards
    )


@pytest.mark.parametrize("seed", seeds(4, 8))
def test_channels(seed, tmp_path, monkeypatch):
    if seed % 2:  # tables, and what waits, lie in files, of a folder for each checkpoint
        monkeypatch.setattr(shard_files, "FILE_BYTES_MIN", 1)
    ends = []
    for moves in (False, True):
        rng, sizes = random.Random(seed), random.Random(seed)
        records = list(channel_records(rng, 400))
        begin = replace(channel_plan(RULES), shards=2, folder=str(tmp_path / f"{moves}"))
        plan, states, written = begin, {}, Counter()
        for batch in range(10):
            if moves and states:
                shards, partitions = sizes.choice(SIZES)
                folder = str(tmp_path / f"moved-{batch}")
                after = replace(plan, shards=shards, state_partitions=partitions, folder=folder)
                before = described_channels(plan, states)
                rows = sorted(states.items())
                moved = reshard_channels(plan, after, rows)
                plan, states = after, dict(moved.rows)
                assert described_channels(plan, states) == before
                waiting = describe_waiting(moved.waiting.values(), RULES)
                assert sorted(each["held"] for each in waiting) == sorted(
                    each["held"] for each in before[0] if each["held"]
                )
            some = records[batch * 40 : batch * 40 + 40]
            written.update(step_channels(plan, states, some, 1000 + 30 * batch))
        held = sum(each["held"] for each in described_channels(plan, states)[0])
        ends.append((written, held, described_channels(plan, states)[0]))
    assert ends[0] == ends[1]
    assert any("late" in row for _, row in ends[0][0]), "ranges were given up"
    assert any('"try": 2' in row for _, row in ends[0][0]), "runs are asked for, again and again"


def test_shards_that_send_each_other_messages_stay_as_many():
    two = broadcast_plan(BatchMulticastPlan, shards=2)
    rows = [(key, StateRow()) for key in shard_keys(2, 2)]
    moved = rekeyed(two, replace(two, state_partitions=1), rows)
    assert [key for key, _ in moved.rows] == shard_keys(2, 1)
    with pytest.raises(ValueError, match="its 2 shards send each other messages"):
        rekeyed(two, replace(two, shards=3), rows)


def test_a_gap_time_that_sets_itself_has_no_more_samples_after_moves():
    """Each new shard knows all of them; together they are not that many times more."""
    delays = with_samples(no_delays(1), np.zeros(200, np.int64), np.zeros(200, np.int64))
    states = [replace(ShardState.empty(), delays=delays)]
    for _ in range(3):
        whole = moving._together(states, ())
        states = [moving._part(whole, np.zeros(0, dtype=np.bool_)) for _ in range(8)]
    assert states[0].delays.sum() == 200
