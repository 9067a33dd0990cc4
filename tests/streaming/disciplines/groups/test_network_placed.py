"""Commands in the input of a network, and notices: a naive model takes one record after the other.

All of it lies in one input partition, so the model knows every membership that a message meets, in
whatever batches it is read. With one sequencing node each subscriber's stream is the model's; with
more, what concerns one group is, and the judge sees that all streams fit into one order.
"""

import json
from collections import Counter, defaultdict
from dataclasses import replace

import pytest

from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.route import route
from streaming.verify.accounts import Material
from streaming.verify.group import GroupSettings, judge
from tests.seeds import seeds
from tests.streaming.disciplines.groups.histories import GROUPS, OPS, history
from tests.streaming.disciplines.groups.model import Model
from tests.streaming.disciplines.groups.networks import plan_for
from tests.streaming.exchange_harness import Floor
from tests.streaming.verify.group_worlds import Groups
from tests.streaming.verify.worlds import Topics, settings_for


def placed(seed):
    """The records of the history's input; versions are another's to choose, and left out."""
    topics = Topics()
    for each in history(seed).all("in"):
        value = each.value
        if each.headers[0][0] == "op":
            fields = json.loads(value)
            fields.pop("if_version", None)
            value = json.dumps(fields).encode()
        topics.put("in", 0, each.timestamp, each.key, value, each.headers)
    return topics


def work(topics, seed, *, whole=False, nodes=3, notices=True, **more):
    plan = plan_for(GROUPS, nodes=nodes, notices=notices, input_commands=OPS, **more)
    floor = Floor(plan, NetworkOperator(plan), route(plan), topics, seed)
    floor.run(whole=whole)
    return floor


def model_of(topics, *, notices=True):
    model = Model(GROUPS, notices=notices, input_commands=OPS)
    model.batch(topics.all("in"), 0)
    return model


def streams(topics):
    """What each subscriber got: the value, or a notice's word and group; with the group of each."""
    found = defaultdict(list)
    for record in topics.all("out"):
        headers = dict(record.headers)
        assert int(headers["sequence"]) == len(found[record.key])
        told = headers.get("notice")
        group = json.loads(headers["detail"])["group"].encode() if told else headers["group"]
        found[record.key].append((group, told or record.value, record.timestamp))
    return dict(found)


def modelled(model, topics):
    groups = {r.timestamp: group_of(r) for r in topics.all("in")}
    found = defaultdict(list)
    for key, value, timestamp, headers in model.outputs:
        told = dict(headers).get("notice")
        found[key].append((groups[timestamp], told or value, timestamp))
    return dict(found)


def group_of(record):
    headers = dict(record.headers)
    return headers.get("group") or json.loads(record.value)["group"].encode()


def by_group(found):
    parted = defaultdict(list)
    for key, stream in found.items():
        for group, *rest in stream:
            parted[key, group].append(rest)
    return dict(parted)


def judged(topics, across_groups):
    settings = settings_for(
        GroupSettings, Groups(1, GROUPS), groups=Groups(1, GROUPS).configured,
        across_groups=across_groups, input_commands=OPS,
    )  # fmt: skip
    own = ("out", "rejects", "events", "commands", "in")
    return judge(settings, Material(*(topics.all(name) for name in own)))


@pytest.mark.parametrize("seed", seeds(12, 300))
def test_random_histories_are_those_of_one_record_at_a_time(seed):
    topics = placed(seed)
    nodes, notices = 1 + seed % 4, seed % 5 > 0
    floor = work(
        topics, seed, whole=seed % 6 == 5, nodes=nodes, notices=notices, shards=1 + seed % 5
    )
    model = model_of(topics, notices=notices)
    expected = modelled(model, topics)
    got = streams(topics)
    if nodes == 1:
        assert got == expected
    assert by_group(got) == by_group(expected)
    verdict = judged(topics, nodes == 1)
    assert verdict.good, verdict.faults[:3]
    totals = floor.totals()
    told = sum(record.value is None for record in topics.all("out"))
    assert (totals.delivered, totals.notices) == (len(topics.all("out")) - told, told)
    assert totals.seen + totals.commands == len(topics.all("in"))
    assert sum(totals.rejected.values()) == len(model.rejects)
    rejects = [dict(r.headers)["reject-reason"].decode() for r in topics.all("rejects")]
    assert Counter(rejects) == Counter(reason for *_, reason in model.rejects)
    assert totals.held == totals.transit == totals.blocked == 0
    assert not any(core.waiting for core in floor.cores()), "no notice waits for ever"
    kinds = Counter(json.loads(record.value)["event"] for record in topics.all("events"))
    del kinds["group-moved"]
    assert kinds == Counter(kind for kind, *_ in model.events)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_message_before_a_join_does_not_reach_who_joins_and_one_after_it_does(nodes):
    topics = Topics()
    for n, (op, value) in enumerate(
        [("", b"before"), ("join", {"group": "G2", "member": "e"}), ("", b"between"),
         ("remove", {"group": "G2", "id": "end"}), ("", b"after")]
    ):  # fmt: skip
        if op:
            topics.put("in", 0, n, b"p", json.dumps(value).encode(), [("op", op.encode())])
        else:
            topics.put("in", 0, n, b"p", value, [("group", b"G2")])
    work(topics, 1, whole=True, nodes=nodes)
    got = {key: [what for _, what, _ in stream] for key, stream in streams(topics).items()}
    assert got == {
        b"d": [b"before", b"joined", b"between", b"removed"],
        b"e": [b"joined", b"between", b"removed"],
    }
    (joined, *_) = [r for r in topics.all("out") if r.key == b"e"]
    detail = json.loads(dict(joined.headers)["detail"])
    assert (detail["joined"], detail["count"], joined.timestamp) == ("e", 2, 1)
    (rejected,) = topics.all("rejects")
    assert (rejected.value, dict(rejected.headers)["reject-reason"]) == (b"after", b"removed-group")


def test_a_notice_waits_for_the_last_messages_of_other_shards():
    """And stands in the state as long; messages of the new view wait behind it."""
    waited = 0
    for seed in range(4):
        topics = placed(seed)
        plan = plan_for(GROUPS, nodes=5, notices=True, input_commands=OPS, shards=5)
        floor = Floor(plan, NetworkOperator(plan), route(plan), topics, seed)
        while floor.left():
            floor.batch()
            waited += sum(len(core.waiting) for core in floor.cores())
    assert waited


def elsewhere(event):
    """The event as if its command lay ten offsets later."""
    return json.dumps({**event, "offset": event["offset"] + 10}).encode()


def test_the_judge_finds_a_change_that_is_not_in_its_place():
    """As if the command had lain behind the message that met the new membership."""
    topics = Topics()
    for n, op in enumerate(["", "join", ""]):
        headers = [("op", b"join")] if op else [("group", b"G2")]
        value = json.dumps({"group": "G2", "member": "e", "n": n}).encode()
        topics.put("in", 0, n, b"p", value, headers)
    work(topics, 1, whole=True)
    assert judged(topics, across_groups=False).good
    for there in topics.records.values():
        for at, record in enumerate(there):
            event = json.loads(record.value) if record.topic == "events" else {}
            detail = json.loads(dict(record.headers).get("detail") or "{}")
            if event:
                there[at] = replace(record, value=elsewhere(event))
            elif detail:
                headers = tuple({**dict(record.headers), "detail": elsewhere(detail)}.items())
                there[at] = replace(record, headers=headers)
            elif record.topic == "in" and record.timestamp == 1:
                there[at] = replace(record, offset=record.offset + 10)
    assert set(judged(topics, across_groups=False).counts) == {"sender-order"}


@pytest.mark.parametrize("nodes", [1, 3])
def test_stamps_go_on_until_a_group_is_removed(nodes):
    """Also where the removal is read in the same batch; behind it there is no overlap."""
    topics = Topics()
    for n, op in enumerate(["G0", "G1", "remove", "G1"]):
        headers = [("op", b"remove")] if op == "remove" else [("group", op.encode())]
        topics.put("in", 0, n, b"p", b'{"group": "G0"}', headers)
    work(topics, 1, whole=True, nodes=nodes, notices=False)
    found = {(r.key, r.timestamp): dict(r.headers).get("stamps") for r in topics.all("out")}
    assert found[b"b", 0] == b'[["G0","G1",0]]'
    assert found[b"b", 1] == b'[["G0","G1",1]]'
    assert found[b"b", 3] is None


def test_what_is_not_allowed_is_a_message():
    topics = Topics()
    topics.put("in", 0, 1, b"p", b"{}", [("group", b"G2"), ("op", b"remove")])
    plan = plan_for(GROUPS, input_commands=["join"])
    floor = Floor(plan, NetworkOperator(plan), route(plan), topics, 1)
    floor.run()
    assert [record.key for record in topics.all("out")] == [b"d"]
    assert floor.totals().commands == 0
