"""Commands in the input, and notices: a naive model takes one record after the other."""

import json
from collections import defaultdict
from dataclasses import replace

import pytest

from streaming.clients.deliveries import ChangeNotice, GroupDelivery, read
from streaming.clients.lines import GroupLine
from streaming.verify.accounts import Material
from streaming.verify.group import GroupSettings, judge
from tests.seeds import seeds
from tests.streaming.disciplines.groups.histories import GROUPS, OPS, history
from tests.streaming.disciplines.groups.model import Model
from tests.streaming.disciplines.groups.stages import events, stage_for
from tests.streaming.verify.group_worlds import Groups
from tests.streaming.verify.worlds import Topics, settings_for

PLACE = ("topic", "partition", "offset", "timestamp", "key", "value")


def shown(topics, numbers=("sequence",)):
    """What each subscriber got: messages by their value, notices by their word, with numbers."""
    found = defaultdict(list)
    for record in topics.all("out"):
        headers = dict(record.headers)
        told = (headers.get("notice"), *(headers.get(each) for each in numbers))
        found[record.key].append((record.value, record.timestamp, *told))
    return dict(found)


def modelled(model):
    found = defaultdict(list)
    for key, value, timestamp, headers in model.outputs:
        told = (dict(headers).get("notice"), dict(headers)["sequence"])
        found[key].append((value, timestamp, *told))
    return dict(found)


def judged(stage, **more):
    world = Groups(1, GROUPS)
    settings = settings_for(
        GroupSettings, world, groups=world.configured, across_groups=True, by_batch=True,
        input_commands=OPS, **more,
    )  # fmt: skip
    own = ("out", "rejects", "events", "commands", "in")
    return judge(settings, Material(*(stage.topics.all(name) for name in own)))


@pytest.mark.parametrize("seed", seeds(8, 40))
def test_random_histories_are_those_of_the_model(seed):
    on = {"notices": seed % 3 > 0, "input_commands": OPS}
    stage = stage_for(GROUPS, history(seed), seed, shards=1 + seed % 3, **on)
    model = stage.model = Model(GROUPS, **on)
    stage.run()
    assert shown(stage.topics) == modelled(model)
    totals = stage.totals()
    messages = [each for each in model.outputs if "notice" not in dict(each[3])]
    assert (totals.delivered, totals.notices) == (
        len(messages), len(model.outputs) - len(messages),
    )  # fmt: skip
    records = len(stage.topics.all("in"))
    assert totals.seen + totals.commands == records
    assert sum(totals.rejected.values()) == len(model.rejects)
    kinds = [each["event"] for each in events(stage.topics)]
    assert sorted(kinds) == sorted(kind for kind, *_ in model.events)
    verdict = judged(stage)
    assert verdict.good, verdict.faults[:3]


@pytest.mark.parametrize("seed", seeds(2, 10))
def test_any_split_into_batches_gives_the_same(seed):
    results = []
    for turn in range(3):
        topics = Topics()
        for each in history(seed).all("in"):
            topics.put("in", 0, each.timestamp, each.key, each.value, each.headers)
        stage = stage_for(GROUPS, topics, turn, notices=True, input_commands=OPS)
        stage.run(whole=turn == 0)
        results.append(shown(topics, ("sequence", "group-version", "group-sequence", "stamps")))
    assert all(each == results[0] for each in results)


def test_a_message_before_a_join_does_not_reach_who_joins_and_one_after_it_does():
    topics = Topics()
    for value in (b"before", {"group": "G2", "member": "e"}, b"between", None, b"after"):
        if isinstance(value, bytes):
            topics.put("in", 0, 7, b"p", value, [("group", b"G2")])
        elif value:
            topics.put("in", 0, 8, b"p", json.dumps(value).encode(), [("op", b"join")])
        else:
            topics.put("in", 0, 9, b"p", b'{"group": "G2"}', [("op", b"remove")])
    stage = stage_for(GROUPS, topics, notices=True, input_commands=["join", "remove"])
    stage.run(whole=True)
    of_e = [record for record in topics.all("out") if record.key == b"e"]
    told = [(record.value, dict(record.headers).get("notice")) for record in of_e]
    assert told == [(None, b"joined"), (b"between", None), (None, b"removed")]
    joined = json.loads(dict(of_e[0].headers)["detail"])
    assert (joined["joined"], joined["version"], joined["count"]) == ("e", 1, 2)
    assert [record.timestamp for record in of_e] == [8, 7, 9]
    (rejected,) = topics.all("rejects")
    assert (rejected.value, dict(rejected.headers)["reject-reason"]) == (b"after", b"removed-group")


def stamped(changes, shards=1):
    """Messages to G0 and G1, with commands between them: each subscriber's stamps."""
    topics = Topics()
    for n, (op, value) in enumerate(changes):
        if op in ("G0", "G1"):
            topics.put("in", 0, n, b"p", b"%d" % n, [("group", op.encode())])
        else:
            topics.put("in", 0, n, b"p", json.dumps(value).encode(), [("op", op.encode())])
    stage = stage_for(GROUPS, topics, shards=shards, input_commands=OPS)
    stage.run(whole=True)
    found = defaultdict(list)
    for record in topics.all("out"):
        stamps = json.loads(dict(record.headers).get("stamps", b"[]"))
        found[record.key].append([each[2] for each in stamps if each[:2] == ["G0", "G1"]])
    verdict = judged(stage)
    assert verdict.good, verdict.faults[:3]
    return dict(found), stage


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_an_overlap_begins_again_at_0_and_goes_on_through_a_version(shards):
    left, joined = {"group": "G0", "member": "c"}, {"group": "G0", "member": "d"}
    again = {"group": "G0", "members": ["b", "c", "d"]}
    found, stage = stamped(
        [("G0", 0), ("G1", 0), ("join", joined), ("G0", 0), ("leave", left), ("G1", 0),
         ("set", again), ("G1", 0), ("join", {"group": "G1", "member": "d"}), ("G0", 0)],
        shards,
    )  # fmt: skip
    assert found[b"b"] == [[0], [1], [2], [], [0], [1]]
    assert found[b"c"] == [[0], [1], [2], [], [0], [1]]
    assert found[b"d"] == [[], [1]]  # its shard knows the number although it had no member
    assert stage.totals().overlaps == [["G0", "G1", 2]]


def test_the_judge_finds_an_overlap_that_does_not_begin_at_0():
    """Neither the first time, nor where it begins again while a subscriber is in both."""
    changes = [("G0", 0), ("G1", 0), ("leave", {"group": "G0", "member": "c"}), ("G0", 0),
               ("join", {"group": "G0", "member": "c"}), ("G0", 0), ("G1", 0)]  # fmt: skip
    for places, shift in ((range(7), 3), (range(4, 7), 2)):
        _, stage = stamped(changes)
        for there in stage.topics.records.values():
            for at, record in enumerate(there):
                headers = dict(record.headers)
                if record.topic == "out" and int(record.value) in places and "stamps" in headers:
                    ((one, two, number),) = json.loads(headers["stamps"])
                    headers["stamps"] = json.dumps([[one, two, number + shift]]).encode()
                    there[at] = replace(record, headers=tuple(headers.items()))
        assert set(judged(stage).counts) == {"overlap-start"}


def test_what_is_not_allowed_is_a_message():
    topics = Topics()
    topics.put("in", 0, 1, b"p", b"{}", [("group", b"G2"), ("op", b"remove")])
    stage = stage_for(GROUPS, topics, input_commands=["join"])
    stage.run(whole=True)
    assert [record.key for record in topics.all("out")] == [b"d"]
    assert stage.totals().commands == 0


def test_the_judge_finds_a_notice_that_is_not_right():
    def edited(change):
        stage = stage_for(GROUPS, history(1), 1, notices=True, input_commands=OPS)
        stage.run(whole=True)
        for there in stage.topics.records.values():
            for at, record in enumerate(there):
                if record.topic == "out" and dict(record.headers).get("notice") == b"joined":
                    there[at] = change(record)
                    return judged(stage).counts
        raise AssertionError("no notice")

    def other(name, value):
        def change(record):
            headers = [(k, value if k == name else v) for k, v in record.headers]
            return type(record)(
                record.topic, record.partition, record.offset, record.timestamp, record.key,
                record.value, tuple(headers),
            )  # fmt: skip

        return change

    assert set(edited(other("notice", b"removed"))) == {"wrong-notice"}
    assert set(edited(other("detail", b'{"id": "x", "group": "G0"}'))) == {"wrong-notice"}


def test_readers_get_notices_typed_and_hold_messages_against_each_other_alone():
    stage = stage_for(GROUPS, history(1), 1, notices=True, input_commands=OPS)
    stage.run(whole=True)
    lines, kinds = defaultdict(GroupLine), set()
    for record in stage.topics.all("out"):
        place = {name: getattr(record, name) for name in PLACE}
        delivery = read("group", place, record.headers, "")
        assert list(lines[record.key].follow(delivery)) == []
        kinds.add(type(delivery))
        if isinstance(delivery, ChangeNotice):
            assert delivery.word in ("joined", "left", "removed")
            assert (delivery.value, delivery.headers) == (None, ())
            assert delivery.detail["group"] in ("G0", "G1", "G2", "G3")
    assert kinds == {ChangeNotice, GroupDelivery}
