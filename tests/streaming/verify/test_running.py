"""Groups and multicasts of a service that runs: what its topics have at some moment is no fault.

Commands come from two sources, and each shard's records appear when it has written them.
"""

import json
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest

from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.route import route
from streaming.disciplines.multicast.protocol.core import MulticastOperator
from streaming.disciplines.multicast.protocol.route import route as multicast_route
from streaming.verify import group, multicast, run, settling
from streaming.verify.accounts import Material, Settings
from streaming.verify.faults import Verdict
from streaming.verify.group import GroupSettings
from streaming.verify.records import Record
from tests.seeds import seeds
from tests.streaming.disciplines.groups.histories import GROUPS, OPS
from tests.streaming.disciplines.groups.networks import plan_for as network_plan
from tests.streaming.disciplines.groups.stages import stage_for as group_stage
from tests.streaming.disciplines.multicast.batched_stages import stage_for as multicast_stage
from tests.streaming.disciplines.multicast.floors import plan_for as multicast_plan
from tests.streaming.disciplines.multicast.placed_model import OPS as NODE_OPS
from tests.streaming.exchange_harness import Floor
from tests.streaming.verify.moments import Moments, Timed


def group_history(rng, count=60):
    topics = Timed()
    for n in range(count):
        name, sender = f"G{rng.randrange(4)}", rng.randrange(3)
        if rng.random() < 0.6:
            headers = [("group", name.encode())]
            topics.put("in", sender % 2, n, b"p%d" % sender, b"%d" % n, headers)
            continue
        op, value = rng.choice(OPS), {"group": name, "id": f"c{n}"}
        if op in ("join", "leave"):
            value["member"] = rng.choice("abcdef")
        elif op != "remove":
            value["members"] = rng.sample("abcdef", rng.randrange(1, 5))
        ask(rng, topics, n, b"p%d" % sender, op, value)
    return topics


def node_history(rng, count=60):
    topics = Timed()
    for n in range(count):
        sender, node = rng.choice([b"p0", b"p1", b"p2"]), f"n{rng.randrange(3)}"
        if rng.random() < 0.4:
            value = {"node": node, "id": f"c{n}"}
            op = rng.choice(["create-node", "create-node", "destroy-node", "release"])
            value |= {"create-node": {"owner": "p1"}, "release": {"peer": "p2"}}.get(op, {})
            ask(rng, topics, n, sender, op, value)
            continue
        names = [b"p0", b"p1", b"p2", b"@n0", b"@n1", b"@n2"]
        headers = [("to", b",".join(rng.sample(names, rng.randrange(1, 4))))]
        headers += [("handles", b"@" + node.encode())] * (rng.random() < 0.5)
        topics.put("in", 0, n, sender, b"%d" % n, headers)
    return topics


def ask(rng, topics, n, sender, op, value):
    """A command on its topic, or among the messages."""
    if rng.random() < 0.5:
        value = json.dumps({**value, "op": op}).encode()
        topics.put("commands", rng.randrange(2), n, None, value)
    else:
        topics.put("in", 0, n, sender, json.dumps(value).encode(), [("op", op.encode())])


def groups_at_work(kind, seed):
    topics, shards = group_history(random.Random(seed)), 1 + seed % 4
    if kind == "batch":
        return group_stage(GROUPS, topics, seed, shards=shards, input_commands=OPS, notices=True)
    plan = network_plan(GROUPS, nodes=1 + seed % 3, shards=shards, input_commands=OPS)
    return Floor(plan, NetworkOperator(plan), route(plan), topics, seed)


def nodes_at_work(kind, seed):
    topics, shards = node_history(random.Random(seed)), 1 + seed % 4
    if kind == "batch":
        return multicast_stage(topics, seed, shards=shards, input_commands=NODE_OPS)
    plan = multicast_plan(kind, shards=shards, input_commands=NODE_OPS)
    return Floor(plan, MulticastOperator(plan), multicast_route(plan), topics, seed)


def settings_of(stage, make, ops, **more):
    fields = {"pipeline": "p", "output": "out", "partitions": {"out": 3}, "input_commands": ops}
    times = {"retire_after_ms": stage.plan.retire_after_ms, "now_ms": stage.now_ms}
    return make(**fields, **times, **more)


def require_no_fault(judge, settings, stage, seed, not_yet):
    """Whenever one looks; what may be mended yet is gone when what is said of outputs is there."""
    moments = Moments(stage, seed)
    for _ in range(8):
        material, due = moments.look(settled=True)
        verdict = judge(replace(settings, due=due), material)
        assert verdict.good, verdict.faults[:3]
        material, _ = moments.look(settled=False)
        verdict = judge(settings, material)
        assert verdict.counts.keys() <= not_yet, verdict.faults[:3]


@pytest.mark.parametrize("kind", ["batch", "network"])
@pytest.mark.parametrize("seed", seeds(6, 200))
def test_what_a_group_pipeline_has_written_by_then_is_no_fault(kind, seed):
    stage = groups_at_work(kind, seed)
    own = {name: frozenset(members) for name, members in GROUPS.items()}
    more = {"groups": own, "across_groups": kind == "batch", "by_batch": kind == "batch"}
    settings = settings_of(stage, GroupSettings, OPS, **more)
    require_no_fault(group.judge, settings, stage, seed, run.OF_GROUPS)


@pytest.mark.parametrize("kind", ["batch", "clock", "counter"])
@pytest.mark.parametrize("seed", seeds(6, 200))
def test_what_a_multicast_pipeline_has_written_by_then_is_no_fault(kind, seed):
    stage = nodes_at_work(kind, seed)
    settings = settings_of(stage, Settings, NODE_OPS)
    require_no_fault(multicast.judge, settings, stage, seed, run.OF_NODES)


@pytest.mark.parametrize(
    ("discipline", "name"),
    [
        ("group", "membership"),
        ("group", "wrong-version"),
        ("group", "lost"),
        ("group", "missing-delivery"),
        ("multicast", "membership"),
        ("multicast", "lost"),
        ("multicast", "wrong-handles"),
    ],
)
def test_what_no_event_says_yet_gets_its_time(discipline, name, monkeypatch):
    """Later looks leave a time between the outputs and what is said of them."""
    looks = [Verdict("p"), Verdict("p"), Verdict("p")]
    for look in looks[:2]:
        look.find(name, "out/0@7: no event says so")
    settled = []

    def judge(asked):
        settled.append(asked.settle_s)
        return looks.pop(0), {}

    monkeypatch.setitem(run.JUDGES, discipline, replace(run.JUDGES[discipline], judge=judge))
    monkeypatch.setattr(run, "RELOOK_SECONDS", 0.001)
    config = SimpleNamespace(pipelines={"p": SimpleNamespace(discipline=discipline)})
    assert run._judge_in_time(run.Subject(config, "p", None, None, ""), wait_s=60).good
    assert settled == [0, 0.001, 0.002]


def test_an_equal_message_that_is_not_there_yet_is_not_the_later_one():
    """Its members' shard has not committed; that of the members after the change has."""
    topics = Timed()
    topics.put("in", 0, 1, b"p", b"same", [("group", b"G2")])
    value = json.dumps({"group": "G2", "members": ["e"]}).encode()
    topics.put("in", 0, 1, b"p", value, [("op", b"set")])
    topics.put("in", 0, 1, b"p", b"same", [("group", b"G2")])
    stage = group_stage(GROUPS, topics, input_commands=OPS)
    stage.run(whole=True)
    own = {name: frozenset(members) for name, members in GROUPS.items()}
    settings = settings_of(stage, GroupSettings, OPS, groups=own, by_batch=True)
    out = [record for record in topics.all("out") if record.key == b"e"]
    rest = [topics.all(name) for name in ("rejects", "events", "commands", "in")]
    verdict = group.judge(replace(settings, due={}), Material(out, *rest))
    assert verdict.good, verdict.faults
    assert group.judge(settings, Material(topics.all("out"), *rest)).good
    assert "unfinished" in group.judge(settings, Material(out, *rest)).counts


def event(partition, offset, at):
    value = json.dumps({"event": "gap", "id": f"{partition}.{offset}", "at": at}).encode()
    return Record("events", partition, offset, 1, b"k", value, ())


class Growing:
    """A topic of events that has more at the second time of reading."""

    def __init__(self, *times):
        self.times = [*times]

    def each(self, _topic, since=None):
        since = since or {}
        records = self.times.pop(0) if len(self.times) > 1 else self.times[0]
        return [each for each in records if each.offset >= since.get(each.partition, 0)]


def test_events_are_read_until_their_newest_batch_is_complete():
    """Its events in another partition appear later; those of the next batch do not count yet."""
    before = [event(0, 0, "1"), event(1, 0, "2")]
    after = [*before, event(0, 1, "2"), event(0, 2, "3"), event(2, 0, "1"), event(1, 1, "3")]
    topics = Growing(before, after)
    read = settling.Later(topics, 0.001).events("events")
    assert [each.place[1:] for each in read] == [(0, 0), (1, 0), (0, 1), (2, 0)]
    assert [*settling.Later(Growing(before, after)).events("events")] == before
