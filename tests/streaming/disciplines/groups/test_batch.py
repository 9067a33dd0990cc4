"""Groups in the order of the batch: random histories against a model, by any number of shards."""

import json
import random
import time
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sequencer.groups.batch import shard
from streaming.arrow.schemas import RECORD
from streaming.disciplines.broadcast import BroadcastWork
from streaming.disciplines.groups.batch import core as batch_core
from streaming.disciplines.groups.batch.describe import describe
from streaming.verify.accounts import Material
from streaming.verify.group import GroupSettings, judge
from tests.seeds import seeds
from tests.streaming.disciplines.groups.model import REMEMBER_MS, Model
from tests.streaming.disciplines.groups.stages import events, stage_for
from tests.streaming.exchange_harness import given_topics
from tests.streaming.verify.group_worlds import Groups, random_groups
from tests.streaming.verify.worlds import Topics, settings_for

SHARDS = (1, 2, 3, 5)


def got(topics, *outputs):
    """What each subscriber got, in order: all that is in a record."""
    found = defaultdict(list)
    for record in topics.all(*outputs or ("out",)):
        found[record.key].append((record.value, record.timestamp, record.headers))
    return dict(found)


@pytest.mark.parametrize("seed", seeds(12, 24))
def test_random_histories_are_those_of_the_model(seed):
    world = random_groups(seed, commands=(0.02, 0.1, 0.3)[seed % 3], steps=160)
    stamps = seed % 5 != 4
    stage = stage_for(
        world.configured, given_topics(world), seed, shards=SHARDS[seed % 4], stamps=stamps
    )
    model = stage.model = Model(world.configured, stamps=stamps)
    stage.run()
    assert got(stage.topics) == model.by_key()
    rejects = [
        tuple(
            dict(r.headers)[f"reject-{name}"] for name in ("topic", "partition", "offset", "reason")
        )
        for r in stage.topics.all("rejects")
    ]
    expected = [(t.encode(), b"%d" % p, b"%d" % o, why.encode()) for t, p, o, why in model.rejects]
    assert sorted(rejects) == sorted(expected)
    told = Counter(each["event"] for each in events(stage.topics))
    assert told == Counter(kind for kind, *_ in model.events)
    changes = [
        (each["event"], each["group"], each["version"], each.get("members", each.get("count")))
        for each in events(stage.topics)
        if each["event"] in ("group-added", "group-changed")
    ]
    assert Counter(map(str, changes)) == Counter(str(e) for e in model.events if len(e) == 4)
    totals = stage.totals()
    assert totals.seen == len(stage.topics.all("in"))
    assert totals.delivered == len(model.outputs)
    assert totals.rejected == Counter(reason for *_, reason in model.rejects)
    assert totals.held == totals.transit == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_number_of_shards_does_not_matter(seed):
    world = random_groups(seed, commands=0.1)
    results = []
    for shards in SHARDS:
        stage = stage_for(world.configured, given_topics(world), seed, shards=shards)
        rng = random.Random(seed)
        while stage.left():  # the same batches whatever the shards
            stage.rng.seed(rng.random())
            stage.batch(wait_ms=rng.randrange(1, 200))
        results.append(got(stage.topics))
    assert all(each == results[0] for each in results)


@pytest.mark.parametrize("seed", range(4))
def test_any_split_into_batches_gives_the_same(seed):
    world = random_groups(seed, commands=0)
    results = []
    for turn in range(3):
        topics = Topics()
        for each in world.topics.all("in"):  # one partition, so one order of arrival
            topics.put("in", 0, each.timestamp, each.key, each.value, each.headers)
        stage = stage_for(world.configured, topics, turn)
        stage.run(whole=turn == 0)
        results.append(without_times(got(topics)))
    assert all(each == results[0] for each in results)


def without_times(outputs):
    """Without the times at which subscribers began."""
    return {
        key: [(value, headers[:-1]) for value, _, headers in some] for key, some in outputs.items()
    }


@pytest.mark.parametrize("seed", range(4))
def test_what_is_kept_and_how_it_is_sliced_does_not_matter(seed, monkeypatch):
    monkeypatch.setattr(shard, "SLICE_MAX", 5)
    monkeypatch.setattr(shard, "LINES_MAX", 20)
    monkeypatch.setattr(batch_core, "IDLE_MAX", 0)
    test_random_histories_are_those_of_the_model(seed)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_names_come_again_before_and_after_they_are_forgotten(seed):
    """Versions and numbers of a name rise for ever; idle subscribers retire and come back."""
    rng = random.Random(seed)
    configured = {"G0": ["a", "b"], "G1": ["a", "b", "c"]}
    stage = stage_for(configured, Topics(), seed)
    model = stage.model = Model(configured)
    known = ["G0", "G1", "G2"]
    for n in range(100):
        group = rng.choice(known)
        if rng.random() < 0.2:
            value = {"op": rng.choice(["add", "remove", "set"]), "group": group}
            value["members"] = rng.sample("abcdef", rng.randrange(1, 4))
            stage.topics.put("commands", 0, n, None, json.dumps(value).encode())
        stage.topics.put("in", 0, n, b"p", b"%d" % n, [("group", group.encode())])
        stage.batch(whole=True, wait_ms=rng.choice([1, REMEMBER_MS // 2, REMEMBER_MS + 1]))
    assert got(stage.topics) == model.by_key()
    assert {"retired"} <= {each["event"] for each in events(stage.topics)}
    assert max(model.floors) > 0, "some name was forgotten"
    rising = defaultdict(list)
    for record in stage.topics.all("out"):
        headers = dict(record.headers)
        place = (int(headers["group-version"]), int(headers["group-sequence"]))
        rising[record.key, headers["group"]].append(place)
    assert all(each == sorted(set(each)) for each in rising.values())


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_a_change_of_one_group_moves_no_other(seed):
    results = []
    for changed in (False, True):
        world = random_groups(seed, commands=0, steps=0)
        stage = stage_for(world.configured, Topics(), seed)
        rng = random.Random(seed)
        groups = sorted(world.configured)
        for n in range(60):
            header = [("group", rng.choice(groups).encode())]
            stage.topics.put("in", 0, n, b"p", b"%d" % n, header)
            if changed and n in (20, 40):
                value = {"op": "set", "group": "G0", "members": ["s0", "s1", f"s{n % 7}"]}
                stage.topics.put("commands", 0, n, None, json.dumps(value).encode())
            stage.batch(whole=True, wait_ms=10)
        results.append({})
        for record in stage.topics.all("out"):
            headers = dict(record.headers)
            if headers["group"] != b"G0":
                stamps = json.loads(headers.get("stamps", b"[]"))
                others = [each for each in stamps if "G0" not in each]
                told = (headers["group-version"], headers["group-sequence"], others)
                results[-1][record.key, record.value] = told
    assert results[0] == results[1]


@pytest.mark.parametrize("seed", range(6))
def test_the_judge_finds_nothing(seed):
    output = "out.{subscriber}" if seed % 3 == 0 else "out"
    world = random_groups(seed, commands=(0, 0.05, 0.2)[seed % 3], output=output)
    stage = stage_for(world.configured, given_topics(world), seed, output=output)
    stage.run()
    verdict = judged(stage, world)
    assert verdict.good, verdict.faults[:3]


def judged(stage, world, **more):
    own = ("rejects", "events", "commands", "in")
    outputs = sorted({topic for topic, _ in stage.topics.records} - set(own))
    settings = settings_for(
        GroupSettings, world, groups=world.configured, across_groups=True, by_batch=True, **more
    )
    material = Material(stage.topics.all(*outputs), *(stage.topics.all(name) for name in own))
    return judge(settings, material)


def test_the_judge_finds_a_version_that_another_group_moved():
    world = Groups(1, {"G0": ["A", "B"], "G1": ["A", "B"]})
    for n in range(8):
        world.send(b"p", b"G%d" % (n % 2), b"%d" % n)
    world.do({"op": "set", "group": "G0", "members": ["A", "B", "C"]})
    stage = stage_for(world.configured, given_topics(world))
    stage.run(whole=True)
    assert judged(stage, world).good
    for (topic, _), there in stage.topics.records.items():
        if topic == "out":
            for at, record in enumerate(there):
                if dict(record.headers)["group"] == b"G1":
                    headers = [(k, b"1" if k == "group-version" else v) for k, v in record.headers]
                    there[at] = replace(record, headers=tuple(headers))
    assert set(judged(stage, world).counts) == {"wrong-version"}


def test_what_subscribers_see():
    topics = Topics()
    for n, group in enumerate([b"G0", b"G1", b"G0", b"G2"]):
        topics.put("in", 0, n, b"p", b"%d" % n, [("group", group)])
    stage = stage_for({"G0": ["A", "B", "C"], "G1": ["B", "C"], "G2": ["A", "D"]}, topics)
    stage.run(whole=True)
    of_b = got(topics)[b"B"]
    assert [name for name, _ in of_b[0][2]] == [
        "group", "sender", "group-sequence", "group-version", "stamps", "sequence", "incarnation",
    ]  # fmt: skip
    assert [dict(headers)["stamps"] for *_, headers in of_b] == [
        b'[["G0","G1",0]]', b'[["G0","G1",1]]', b'[["G0","G1",2]]',
    ]  # fmt: skip
    assert not any("stamps" in dict(headers) for *_, headers in got(topics)[b"A"])


def test_what_is_told_of_subscribers():
    world = random_groups(5, commands=0.1)
    stage = stage_for(world.configured, given_topics(world), 5, shards=3, stamps=False)
    model = stage.model = Model(world.configured, stamps=False)
    while stage.left():
        stage.batch()
        told = {each["subscriber"]: each for core in stage.cores() for each in describe(core)}
        assert {key: sorted(map(list, each["overlaps"])) for key, each in told.items()} == {
            key: model.numbers(key) for key in told
        }
        shown = [[*pair, number] for pair, number in sorted(model.overlaps.items())]
        assert stage.totals().overlaps == shown
        counts = {key: len(some) for key, some in got(stage.topics).items()}
        assert {k.encode(): v["sequence"] for k, v in told.items() if v["sequence"]} == counts
    of = {name: each["groups"] for name, each in told.items()}
    begun = stage_for(world.configured, given_topics(world)).operator.core(0)
    assert of.keys() >= set(begun.first.subscribers) - {name for name in of if not of[name]}
    assert all(each["held"] == 0 and each["waiting"] == [] for each in told.values())


def test_one_command_among_many_groups_and_many_subscribers(capsys):
    """What it costs is printed; that it touches its own group alone is asserted."""
    rng = np.random.default_rng(1)
    for subscribers in (128, 100_000):
        names = [f"s{n}" for n in range(subscribers)]
        sizes = np.minimum(rng.zipf(1.3, 1024) * 8, min(subscribers, 10_000) // 2)
        groups = {
            f"G{n}": [names[at] for at in rng.choice(subscribers, size, replace=False)]
            for n, size in enumerate(sizes.tolist())
        }
        stage = stage_for(groups, Topics())
        core = stage.operator.core(0)
        empty = RECORD.empty_table()
        list(core.step(BroadcastWork(empty, empty, 1)))  # the first batch works out who is where
        before = core.shard.directory.version.copy()
        command = {"op": "set", "group": "G7", "members": [*groups["G7"][1:], "s5", "s9"]}
        row = dict.fromkeys(RECORD.names)
        row |= {"topic": 1, "partition": 0, "offset": 0, "value": json.dumps(command).encode()}
        commands = pa.Table.from_pylist([row], schema=RECORD)
        began = time.perf_counter()
        list(core.step(BroadcastWork(empty, commands, 2)))
        state = core.dump()
        took = time.perf_counter() - began
        moved = np.flatnonzero(core.shard.directory.version != before)
        assert [core.shard.directory.names[at] for at in moved] == ["G7"]
        with capsys.disabled():
            print(
                f"\n{subscribers} subscribers, 1024 groups, {sizes.sum()} members: one set "
                f"{took * 1000:.1f} ms, state {len(state)} bytes"
            )
