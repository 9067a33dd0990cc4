"""Groups on shards: random histories in random batches, judged from what is written."""

import json
import random
from collections import Counter

import pyarrow as pa
import pytest

from streaming.arrow.schemas import HEADERS
from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.describe import describe
from streaming.disciplines.groups.network.route import route
from streaming.verify.accounts import Material
from streaming.verify.group import GroupSettings, judge
from tests.seeds import seeds
from tests.streaming.disciplines.groups.networks import floor_for, plan_for
from tests.streaming.disciplines.groups.stages import stage_for
from tests.streaming.exchange_harness import Floor, given_topics, run_with_repeats
from tests.streaming.verify.group_worlds import Groups, random_groups
from tests.streaming.verify.worlds import SUBSCRIBERS, Topics, settings_for


def work(world, seed, *, whole=False, across_groups=False, **options):
    """The pipeline works through the world's inputs and commands; its floor and the verdict."""
    options |= {"nodes": 1} if across_groups else {}
    floor = floor_for(world, seed, **options)
    floor.run(whole=whole)
    own = ("rejects", "events", "commands", "in")
    outputs = {t for t, _ in floor.topics.records} - {*own, "transit"}
    everything = floor.topics.all(*sorted(outputs))
    settings = settings_for(
        GroupSettings, world, groups=world.configured, across_groups=across_groups
    )
    material = Material(everything, *(floor.topics.all(name) for name in own))
    return floor, judge(settings, material)


@pytest.mark.parametrize("seed", seeds(15, 30))
def test_random_histories_in_random_batches(seed):
    rng = random.Random(seed)
    across = seed % 4 == 0
    output = "out.{subscriber}" if seed % 3 == 0 else "out"
    world = random_groups(seed, commands=rng.choice([0, 0.05, 0.2]), output=output)
    floor, verdict = work(
        world,
        seed,
        shards=1 + seed % 7,
        nodes=1 + seed % 5,
        across_groups=across,
        whole=seed % 10 == 9,
    )
    assert verdict.good, verdict.faults[:3]
    totals = floor.totals()
    assert totals.seen == len(floor.topics.all("in"))
    assert totals.held == totals.blocked == totals.transit == 0
    assert sum(totals.rejected.values()) == len(floor.topics.all("rejects"))


def test_what_is_told_of_subscribers_in_between():
    held = 0
    for seed in range(4):
        floor = floor_for(random_groups(seed, commands=0.1), seed, shards=5, nodes=5)
        while floor.left():
            floor.batch()
            told = [each for core in floor.cores() for each in describe(core)]
            got = Counter(record.key.decode() for record in floor.topics.all("out"))
            assert {
                each["subscriber"]: each["sequence"] for each in told if each["sequence"]
            } == got
            assert sum(each["held"] for each in told) == floor.totals().held
            assert all(len(each["waiting"]) == each["held"] for each in told)
            held += floor.totals().held
    assert held, "something was held at some time"


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_many_random_histories(block):
    for seed in range(1000 + 60 * block, 1060 + 60 * block):
        test_random_histories_in_random_batches(seed)


def test_a_repeated_chunk_is_known():
    """With delivery = "at-least-once" the transit topic may have repeats."""
    world = Groups(1, {"G0": ["A", "B", "C"], "G1": ["B", "C", "D"]})
    for n in range(30):
        world.send(b"p", b"G%d" % (n % 2), b"%d" % n)
    plan = plan_for(world.configured)
    floor = Floor(plan, NetworkOperator(plan), route(plan), given_topics(world), 1)
    run_with_repeats(floor)
    delivered = floor.topics.all("out")
    assert len(delivered) == 90
    assert floor.totals().transit == 0


def test_what_subscribers_see():
    world = Groups(1, {"G0": ["A", "B", "C"], "G1": ["B", "C"], "G2": ["A", "D"]})
    for n, group in enumerate([b"G0", b"G1", b"G0", b"G2"]):
        world.send(b"p", group, b"%d" % n)
    floor, verdict = work(world, 1)
    assert verdict.good, verdict.faults
    of_b = [r for r in floor.topics.all("out") if r.key == b"B"]
    assert [r.value for r in of_b] == [b"0", b"1", b"2"]
    assert [name for name, _ in of_b[0].headers[-6:]] == [
        "sender",
        "group-sequence",
        "group-version",
        "stamps",
        "sequence",
        "incarnation",
    ]
    stamps = [json.loads(dict(r.headers)["stamps"]) for r in of_b]
    assert [each[0][:2] for each in stamps] == [["G0", "G1"]] * 3
    assert [each[0][2] for each in stamps] == [0, 1, 2]
    of_a = [r for r in floor.topics.all("out") if r.key == b"A"]
    assert not any("stamps" in dict(r.headers) for r in of_a), "A is in no double overlap"


def test_overlaps_have_numbers_that_begin_again_with_a_path():
    """Each is listed by the shard of its atom; a subscriber's are those that it got so far."""
    world = Groups(1, {"G0": ["A", "B", "C"], "G1": ["B", "C"], "G2": ["A", "D"], "G3": ["C", "D"]})
    for n, group in enumerate([b"G0", b"G1", b"G0", b"G2"]):
        world.send(b"p", group, b"%d" % n)
    floor, _ = work(world, 1, nodes=4, shards=3)
    assert floor.totals().overlaps == [["G0", "G1", 3]]
    told = {each["subscriber"]: each for core in floor.cores() for each in describe(core)}
    assert told["B"]["overlaps"] == told["C"]["overlaps"] == [("G0", "G1", 3)]
    assert told["A"]["overlaps"] == told["D"]["overlaps"] == []
    value = {"op": "join", "group": "G2", "member": "B"}
    floor.topics.put("commands", 0, 1, None, json.dumps(value).encode())
    floor.run()
    assert floor.totals().overlaps == [["G0", "G1", 0], ["G0", "G2", 0]]


@pytest.mark.parametrize("after", [["X"], ["W", "X", "Y", "Z"]])
def test_who_left_is_forgotten_after_a_time_whoever_is_there_instead(after):
    """Also where another group keeps the view in which they were members."""
    world = Groups(1, {"G0": ["A", "B"], "G1": ["B", "C"]})
    for group in (b"G0", b"G1"):
        world.send(b"p", group, b"hello")
    floor = floor_for(world, 1, shards=2, retire_after_ms=1000)
    floor.run()
    value = {"op": "set", "group": "G0", "members": after}
    floor.topics.put("commands", 0, 1, None, json.dumps(value).encode())
    floor.run()
    floor.now_ms += 2000
    for group in (b"G0", b"G1"):
        for partition in range(2):
            floor.topics.put("in", partition, 1, b"p", b"later", [("group", group)])
    floor.topics.put("commands", 0, 1, None, b"{}")  # for all shards
    floor.run()
    told = [json.loads(record.value) for record in floor.topics.all("events")]
    gone = [each["subscriber"] for each in told if each["event"] == "retired"]
    assert gone == ["A"], "the others are members"


@pytest.mark.parametrize("change", ["set", "remove"])
def test_an_overlap_that_is_over_has_no_stamps(change):
    world = Groups(1, {"G0": ["A", "B", "C"], "G1": ["A", "B", "D"], "G2": ["C", "E"]})
    floor = floor_for(world, 1, shards=3, nodes=4)
    value = {"op": change, "group": "G1", "members": ["D", "F"]}
    for n, command in enumerate([None, value]):
        if command is not None:
            floor.topics.put("commands", 0, 1, None, json.dumps(command).encode())
            floor.run()
        floor.topics.put("in", 0, 1, b"p", b"%d" % n, [("group", b"G0")])
        floor.run()
    stamps = [dict(r.headers).get("stamps") for r in floor.topics.all("out") if r.key == b"A"]
    assert stamps == [b'[["G0","G1",0]]', None]


def test_commands_are_answered_once():
    world = Groups(1, {"G0": SUBSCRIBERS[:3]})
    bad = [
        b"{",
        b"[]",
        {"op": "grow"},
        {"op": "add", "group": "", "members": ["a"]},
        {"op": "add", "group": "G1", "members": []},
        {"op": "add", "group": "G1", "members": [""]},
        {"op": "add", "group": "G1", "members": "ab"},
        {"op": "add", "group": "G0", "members": ["a"]},
        {"op": "set", "group": "G7", "members": ["a"], "id": "seven"},
        {"op": "remove", "group": "G7"},
    ]
    for each in bad:
        world.do(each)
    world.do({"op": "add", "group": "G1", "members": ["x", "y", "x"], "id": "ä"})
    world.send(b"p", b"G1", b"hello")
    floor, verdict = work(world, 1)
    assert verdict.good, verdict.faults
    events = [json.loads(r.value) for r in floor.topics.all("events")]
    refused = [each for each in events if each["event"] == "command-refused"]
    assert len(refused) == len(bad)
    assert all(each["reason"] and each["detail"] for each in refused)
    (done,) = [each for each in events if each["event"] == "command-done"]
    assert done["command"] == "ä"
    (added,) = [each for each in events if each["event"] == "group-added"]
    assert added["members"] == ["x", "y"]


def test_members_cannot_take_the_pipelines_own_topics():
    world = Groups(1, {"G0": ["A"]}, output="p.{subscriber}")
    world.do({"op": "add", "group": "G1", "members": ["x y"]})
    plan = plan_for(world.configured, output="p.{subscriber}")
    assert "{subscriber}" in plan.output
    floor = Floor(plan, NetworkOperator(plan), route(plan), given_topics(world), 1)
    floor.topics.put("commands", 0, 0, None, b'{"op":"add","group":"G","members":["a/b"]}')
    floor.run()
    refused = [json.loads(r.value) for r in floor.topics.all("events")]
    assert [each["reason"] for each in refused] == ["bad-members"] * 2


@pytest.mark.parametrize("by_batch", [False, True])
def test_members_whose_topics_kafka_takes_for_one_are_refused(by_batch):
    configured, output = {"G0": ["a.b"]}, "p.{subscriber}"
    topics = Topics()
    for n, value in enumerate(
        [
            {"op": "add", "group": "G1", "members": ["c", "a_b"]},
            {"op": "add", "group": "G1", "members": ["c.d", "c_d"]},
            {"op": "join", "group": "G0", "member": "a_b"},
            {"op": "add", "group": "G1", "members": ["c_d", "a.b"]},
            {"op": "leave", "group": "G1", "member": "c.d"},
        ]
    ):
        topics.put("commands", 0, n, None, json.dumps(value).encode())
    if by_batch:
        stage_for(configured, topics, output=output, shards=3).run()
    else:
        plan = plan_for(configured, output=output)
        Floor(plan, NetworkOperator(plan), route(plan), topics, 1).run()
    told = [json.loads(r.value) for r in topics.all("events")]
    answers = [each for each in told if each["event"].startswith("command-")]
    reasons = [each.get("reason") for each in sorted(answers, key=lambda each: each["offset"])]
    assert reasons == ["bad-members", "bad-members", "bad-member", None, None]


def test_commands_with_names_that_are_no_unicode_are_refused_and_judged():
    world = Groups(1, {"G0": ["A", "B"]})
    for text in (
        b'{"op": "add", "group": "H\\ud800", "members": ["A"], "id": "s"}',
        b'{"op": "add", "group": "H", "members": ["A\\udcff"], "id": "t"}',
        b'{"op": "set", "group": "H", "members": ["A"], "id": "\\ud800"}',
    ):
        world.command(text)
    floor, verdict = work(world, 1)
    assert verdict.good, verdict.faults
    told = [json.loads(each.value) for each in floor.topics.all("events")]
    assert [each["event"] for each in told] == ["command-refused"] * 3
    assert {each["command"] for each in told} == {"s", "t", None}


def test_groups_that_a_change_moves_are_told_of():
    world = Groups(1, {"G0": ["A", "B"], "G1": ["A", "B"], "G2": ["X", "Y"]})
    world.do({"op": "set", "group": "G0", "members": ["A", "B", "C"], "id": "grow"})
    world.send(b"p", b"G1", b"hello")
    floor, verdict = work(world, 1)
    assert verdict.good, verdict.faults
    told = [json.loads(r.value) for r in floor.topics.all("events")]
    (moved,) = [each for each in told if each["event"] == "group-moved"]
    (delivered, _) = floor.topics.all("out")
    assert (moved["group"], moved["command"]) == ("G1", "grow")
    assert b"%d" % moved["version"] == dict(delivered.headers)["group-version"]
    assert len({each["id"] for each in told}) == len(told)


def test_a_record_has_its_shard_however_a_batch_is_cut():
    """Also one that names no group: a repeated batch is read in other pieces."""
    plan = plan_for({"G0": "ab", "G1": "bc", "G2": "d"}, nodes=5, shards=3)
    names = [b"G2", None, b"", b"nope", b"G0", None, b"\xff", b"G1", None]
    headers = [[{"key": "group", "value": name}] for name in names]
    table = pa.table({"headers": pa.array(headers, HEADERS)})
    whole = route(plan)(table).tolist()
    for size in (1, 2, 5):
        pieces = [table.slice(at, size) for at in range(0, len(table), size)]
        assert [shard for piece in pieces for shard in route(plan)(piece).tolist()] == whole
