"""Progress marks: what they promise is so, in every discipline, and no more than that."""

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.arrow.totals import Totals
from streaming.disciplines.channels.codec import decode_shard, encode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.route import first_ingress, route
from streaming.disciplines.groups.plan import NetworkPlan
from streaming.disciplines.multicast.protocol.core import MulticastOperator
from streaming.disciplines.multicast.protocol.route import route as multicast_route
from streaming.disciplines.state_row import StateRow
from streaming.service.marks import Done, done_by, marks
from streaming.service.progress import Progress
from streaming.source.positions import Log
from streaming.verify.faults import Verdict
from streaming.verify.marks import Marks
from streaming.verify.origins import of_channel
from streaming.verify.records import Record
from streaming.wire.bounds import Bound
from tests.seeds import seeds
from tests.streaming.disciplines.channels.plans import pack, plan
from tests.streaming.disciplines.groups.stages import stage_for
from tests.streaming.disciplines.multicast.floors import plan_for as multicast_plan
from tests.streaming.exchange_harness import Floor, exchange_plan, given_topics
from tests.streaming.in_memory import PARTITIONS
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts


def channel_batches(seed):
    """Batches of shuffled records, each with a time of its own."""
    rng = random.Random(seed)
    labels = [(key, n) for key in (b"a", b"b", b"c") for n in range(12)]
    rng.shuffle(labels)
    rows = [
        {
            "topic": 0,
            "partition": rng.randrange(2),
            "offset": at,
            "timestamp": rng.randrange(1000, 9000),
            "key": key,
            "value": b"",
            "headers": [{"key": "label", "value": b"%d" % label}],
        }
        for at, (key, label) in enumerate(labels)
    ]
    while rows:
        count = rng.randrange(1, 9)
        yield rows[:count]
        rows = rows[count:]


@pytest.mark.parametrize("seed", seeds(4, 40))
def test_the_oldest_that_a_channel_holds_is_told_by_partition(seed):
    """Against a naive look; held records from before the switch count from then on."""
    usual = plan(Rules(LinearLabels()))
    switch, state = random.Random(seed).randrange(4), StateRow()
    waiting, newest = {}, {}
    for batch, rows in enumerate(channel_batches(seed)):
        p = replace(usual, progress="progress") if batch >= switch else usual
        shard = decode_shard(state, record_schema(p))
        after, writes = step_shard(shard, pack(rows, p), 10_000, p)
        state = encode_shard(after)
        totals = Totals.from_json(state.totals)
        for row in rows:
            waiting[row["key"], row["headers"][0]["value"]] = row["timestamp"]
            if batch >= switch:
                name = f"in/{row['partition']}"
                newest[name] = max(newest.get(name, 0), row["timestamp"])
        homes = {}
        for topic, table in writes:
            for row in table.to_pylist() if topic == "out" else ():
                homes[row["key"]] = row["partition"]
                del waiting[row["key"], row["headers"][0]["value"]]
        oldest = {}
        for (key, _), time in waiting.items():
            home = str(HOMES[key])
            oldest[home] = min(oldest.get(home, time), time)
        assert totals.oldest_ms == (oldest if batch >= switch else None)
        assert totals.read_ms == newest


HOMES = {}


@pytest.fixture(autouse=True, scope="module")
def homes():
    import pyarrow as pa

    from streaming.arrow.partitioner import partitions_of

    keys = [b"a", b"b", b"c"]
    HOMES.update(zip(keys, partitions_of(pa.array(keys, pa.binary()), 3).tolist(), strict=True))


def network(seed):
    world = random_groups(seed, steps=40, commands=0.1)
    members = {name: tuple(sorted(some)) for name, some in world.configured.items()}
    plan = exchange_plan(NetworkPlan, groups=members, nodes=3, origin=True, progress="progress")
    plan = replace(plan, ingress=first_ingress(plan))
    return Floor(plan, NetworkOperator(plan), route(plan), given_topics(world), seed)


def protocol(order):
    def make(seed):
        world = random_multicasts(seed, steps=40, order=order, commands=0.2)
        plan = multicast_plan(order, origin=True, progress="progress")
        operator = MulticastOperator(plan)
        return Floor(plan, operator, multicast_route(plan), given_topics(world), seed)

    return make


def delivered(floor):
    """How many deliveries each input has so far."""
    found = (record.header("origin") for record in floor.topics.all("out"))
    return Counter(origin.decode() for origin in found if origin)


@pytest.mark.parametrize("make", [network, protocol("clock"), protocol("counter")])
@pytest.mark.parametrize("seed", seeds(1, 12))
def test_what_is_on_its_way_is_no_older_than_it_is_said_to_be(make, seed):
    floor = make(seed)
    looks, progress = [], Progress(transit_ms=None)
    while floor.left():
        floor.news = []
        floor.batch()
        progress.shards = {0: floor.totals()}
        progress.note_transit(floor.news)
        done = done_by(b"v1\n{}", floor.totals(), progress.transit_ms, ())
        looks.append((dict(floor.read), delivered(floor), done.oldest_ms))
    final, held = delivered(floor), 0
    earliest = min(record.timestamp for record in floor.topics.all("in"))
    for read, so_far, oldest in looks:
        missing = [
            record.timestamp
            for (topic, partition), count in read.items()
            for record in floor.topics.records[topic, partition][:count]
            if topic == "in" and so_far[place(record)] < final[place(record)]
        ]
        if missing:
            assert earliest <= oldest[""] <= min(missing)
            held += 1
    assert held or seed, "something was on its way at some time"
    assert looks[-1][2] == {}, "nothing is, when all is done"


def place(record):
    return f"{record.topic}/{record.partition}@{record.offset}"


def test_by_the_batch_nothing_is_held():
    world = random_groups(1, steps=30)
    stage = stage_for(world.configured, given_topics(world), 1, progress="progress")
    stage.run()
    totals = stage.totals()
    assert totals.oldest_ms == {}
    times = {}
    for record in stage.topics.all("in"):
        times.setdefault(f"in/{record.partition}", []).append(record.timestamp)
    assert totals.read_ms == {name: max(each) for name, each in times.items()}


# --- What a mark says.

ENDS = {"in": {0: Bound(10, 0), 1: Bound(4, 0)}, "out": {at: Bound(20 + at, 0) for at in range(3)}}


def said(read, offsets=(10, 4), oldest=None, ends=ENDS, written=None):
    inputs = {"in": {str(at): offset for at, offset in enumerate(offsets)}}
    return marks(Done(inputs, read, oldest or {}, written or {}), ends, "out", 0)


def test_a_mark_for_each_output_partition():
    found = said({"in/0": 500, "in/1": 300}, offsets=(10, 3), oldest={"1": 200})
    assert found["1"] == {
        "output_end": 21,
        "inputs": {"in": {"0": 10, "1": 3}},
        "read_until_ms": 300,
        "caught_up_ms": None,
        "oldest_held_ms": 200,
        "at": "1970-01-01T00:00:00.000Z",
    }
    assert [each["oldest_held_ms"] for each in found.values()] == [None, 200, None]


def test_a_leader_that_is_deposed_names_an_end_of_before():
    """What was written is known from who took it."""
    found = said({"in/0": 500, "in/1": 300}, written={"0": 25, "1": 3})
    assert [each["output_end"] for each in found.values()] == [25, 21, 22]


def test_what_may_be_in_any_partition_counts_in_each():
    found = said({"in/0": 500, "in/1": 300}, oldest={"": 250, "1": 200, "2": 260})
    assert [each["oldest_held_ms"] for each in found.values()] == [250, 200, 250]


def test_who_has_read_all_is_complete_until_the_newest():
    assert {each["caught_up_ms"] for each in said({"in/0": 500, "in/1": 300}).values()} == {500}


def test_a_partition_without_records_holds_nothing_back():
    ends = {**ENDS, "in": {0: Bound(10, 0), 1: Bound(0, 0)}}
    assert said({"in/0": 500}, (10, 0), ends=ends)["0"]["read_until_ms"] == 500
    assert said({"in/0": 500}, (10, 0)) == {}, "of its records none was read yet"
    assert said({}) == {}, "nothing was read at all"


def test_what_a_batch_came_to_is_in_the_offset_log():
    lines = ["v1", "{}", json.dumps({"in": {"0": 7}, "#in": {"id": "x"}, "c": {"0": 1}}), "5", "-"]
    logged = "\n".join(lines).encode()
    totals = Totals(read_ms={"in/0": 3}, oldest_ms={})
    expected = Done({"in": {"0": 7}}, {"in/0": 3}, {}, logs={"in": Log("x")})
    assert done_by(logged, totals, None, ("in",)) == expected
    assert done_by(logged, Totals(), None, ("in",)) is None, "it is not known what is held"
    assert done_by(logged, totals, 8, ("in",)).oldest_ms == {"": 8}
    assert Totals.sum([totals, Totals()]).oldest_ms is None
    both = Totals.sum([Totals(oldest_ms={"1": 4}), Totals(oldest_ms={"1": 3, "2": 9})])
    assert both.oldest_ms == {"1": 3, "2": 9}


# --- The judge.


def record(topic, offset, time, label, *, headers=(), partition=0):
    own = (("label", b"%d" % label), *headers)
    return Record(topic, partition, offset, time, b"k", b"v", own)


def mark(end, offset, oldest=None, **more):
    fields = {"output_end": end, "inputs": {"in": {"0": offset}}, "read_until_ms": 0}
    value = json.dumps({**fields, "oldest_held_ms": oldest, **more}).encode()
    return Record("progress", 0, 0, 0, b"0", value, ())


def judged(*given, first=False):
    """Three records; the first one is delivered last, for it had been held."""
    judge, verdict = Marks("", of_channel, first=first), Verdict("p")
    judge.read(given, {("in", 0): 3})
    counts = (("sequence", b"0"), ("incarnation", b"5"))
    outputs = [record("out", at, 100 + n, n, headers=counts) for at, n in enumerate([1, 2, 0])]
    inputs = [record("in", n, 100 + n, n) for n in range(3)]
    assert list(judge.taken(outputs)) == outputs
    assert list(judge.held_against(inputs)) == inputs
    judge.finish(verdict)
    return verdict.counts


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (mark(3, 3), {}),
        (mark(2, 3, 100), {}),
        (mark(2, 3), {"false-mark": 1}),
        (mark(2, 3, 101), {"false-mark": 1}),
        (mark(1, 3, 100), {}),
        (mark(1, 2, 102), {"false-mark": 1}),
        (mark(0, 0), {}),
        (mark(3, 4), {"bad-mark": 1}),
        (mark("3", 3), {"bad-mark": 1}),
        (mark(3, 3, "x"), {"bad-mark": 1}),
        (Record("progress", 0, 0, 0, b"x", mark(3, 3).value, ()), {"bad-mark": 1}),
        (Record("progress", 0, 0, 0, b"0", b"{", ()), {"bad-mark": 1}),
        (Record("progress", 0, 0, 0, None, None, ()), {"bad-mark": 1}),
    ],
)
def test_the_judge_of_marks(given, found):
    assert judged(given) == found
    assert judged(given, mark(3, 3)) == found, "a later one is right"


def test_equal_records_are_passed_over():
    judge, verdict = Marks("", of_channel, first=False), Verdict("p")
    judge.read([mark(0, 2)], {("in", 0): 2})
    counts = (("sequence", b"0"), ("incarnation", b"5"))
    list(judge.taken([record("out", 1, 100, 0, headers=counts)]))
    list(judge.held_against([record("in", n, 100, 0) for n in range(2)]))
    judge.finish(verdict)
    assert verdict.good, verdict.faults


def test_output_partitions_are_judged_apart():
    assert PARTITIONS == 3
    other = Record("progress", 0, 0, 0, b"1", mark(0, 3).value, ())
    assert judged(other) == {}


def test_what_is_in_transit_counts_until_another_batch_has_taken_all_of_it():
    progress = Progress(transit_ms=None)
    for transit, sent, expected in [
        (2, [[2, 50]], 50),
        (3, [[2, 70]], 50),
        (3, [[2, 60], [1, 90]], 60),
        (1, [[1]], None),
        (1, [], None),
        (0, [], None),
    ]:
        progress.shards = {0: Totals(transit=transit)}
        progress.note_transit([Totals(in_transit=each) for each in sent])
        assert progress.transit_ms == expected
    progress.transit_ms = 0  # after a start: it is not known
    progress.shards = {0: Totals(transit=2)}
    progress.note_transit([Totals(in_transit=[1, 90])])
    assert progress.transit_ms == 0
