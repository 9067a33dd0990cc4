"""Refusals of commands, by the topics of real shards: right ones, and planted reasons."""

import json
from dataclasses import replace

import pytest

from streaming.verify.accounts import Material, Settings
from streaming.verify.group import GroupSettings
from streaming.verify.group import judge as judge_groups
from streaming.verify.multicast import judge as judge_multicast
from tests.streaming.disciplines.groups.histories import GROUPS
from tests.streaming.disciplines.groups.stages import stage_for as group_stage
from tests.streaming.disciplines.multicast.batched_stages import stage_for as multicast_stage
from tests.streaming.disciplines.multicast.placed_model import OPS
from tests.streaming.verify.worlds import Topics

OF_GROUPS = [
    {"op": "add", "group": "G0", "members": ["a"]},
    {"op": "remove", "group": "G9"},
    {"op": "leave", "group": "G2", "member": "d"},
    {"op": "set", "group": "G0", "members": ["a"], "if_version": 7},
    {"op": "grow", "group": "G0"},
]
REASONS = ["group-exists", "unknown-group", "no-members", "version-moved", "unknown-op"]
OF_NODES = [
    ("p1", {"op": "create-node", "node": "n", "owner": "p1"}),
    ("p1", {"op": "create-node", "node": "n", "owner": "p1"}),
    ("p1", {"op": "destroy-node", "node": "m"}),
    ("p2", {"op": "destroy-node", "node": "n"}),
    ("p1", {"op": "destroy-node", "node": "n"}),
    ("p1", {"op": "destroy-node", "node": "n"}),
]
NODE_REASONS = [None, "node-exists", "unknown-node", "not-owner", None, "destroyed-node"]


def groups():
    """Commands to groups at work, and what is judged of them."""
    topics = Topics()
    for n, value in enumerate(OF_GROUPS):
        topics.put("commands", 0, n, None, json.dumps(value).encode())
    group_stage(GROUPS, topics).run(whole=True)

    def verdict():
        own = {name: frozenset(members) for name, members in GROUPS.items()}
        settings = GroupSettings(
            pipeline="p", output="out", partitions={"out": 3}, groups=own, by_batch=True
        )
        return judge_groups(settings, material(topics))

    return topics, verdict


def nodes():
    topics = Topics()
    for n, (key, value) in enumerate(OF_NODES):
        op = value["op"].encode()
        topics.put("in", 0, n, key.encode(), json.dumps(value).encode(), [("op", op)])
    multicast_stage(topics, 1, input_commands=OPS).run(whole=True)

    def verdict():
        settings = Settings(
            pipeline="p", output="out", partitions={"out": 3}, retire_after_ms=10**9,
            input_commands=OPS,
        )  # fmt: skip
        return judge_multicast(settings, material(topics))

    return topics, verdict


def material(topics):
    return Material(*map(topics.all, ("out", "rejects", "events", "commands", "in")))


def answers(topics):
    """By the place of the command: the partition of its answer, where it is, and its fields."""
    found = [
        (json.loads(record.value), there, at)
        for (topic, _), there in topics.records.items()
        if topic == "events"
        for at, record in enumerate(there)
    ]
    found = [each for each in found if each[0]["event"].startswith("command-")]
    return [rest for _, *rest in sorted(found, key=lambda each: each[0]["offset"])]


def edit(topics, number, **fields):
    there, at = answers(topics)[number]
    value = json.dumps(json.loads(there[at].value) | fields).encode()
    there[at] = replace(there[at], value=value)


@pytest.mark.parametrize(("made", "reasons"), [(groups, REASONS), (nodes, NODE_REASONS)])
def test_refusals_of_the_service_are_right(made, reasons):
    topics, verdict = made()
    given = [json.loads(there[at].value).get("reason") for there, at in answers(topics)]
    assert given == reasons
    assert verdict().good, verdict().faults


@pytest.mark.parametrize(
    ("made", "number", "fields"),
    [
        (groups, 0, {"reason": "unknown-group"}),
        (groups, 0, {"reason": "no-members"}),
        (groups, 0, {"reason": "unreadable"}),
        (groups, 1, {"reason": "group-exists"}),
        (groups, 2, {"reason": "unknown-group"}),
        (groups, 2, {"reason": "unknown-op"}),
        (groups, 3, {"reason": "no-members"}),
        (groups, 3, {"reason": "unknown-group"}),
        (groups, 3, {"version": 3}),
        (nodes, 1, {"reason": "unknown-node"}),
        (nodes, 2, {"reason": "destroyed-node"}),
        (nodes, 2, {"reason": "node-exists"}),
        (nodes, 3, {"reason": "unknown-node"}),
        (nodes, 3, {"reason": "destroyed-node"}),
        (nodes, 3, {"reason": "unreadable"}),
    ],
)
def test_a_refusal_that_cannot_be_right(made, number, fields):
    topics, verdict = made()
    edit(topics, number, **fields)
    assert set(verdict().counts) == {"wrong-answer"}


def test_a_command_that_is_too_long_cannot_be_read(monkeypatch):
    members = [f"{n:0200}" for n in range(6_000)]
    long = {"op": "add", "id": "1", "group": "G9", "members": members, "by": "me"}
    monkeypatch.setattr("tests.streaming.verify.test_refused_commands.OF_GROUPS", [long])
    topics, verdict = groups()
    there, at = answers(topics)[0]
    assert json.loads(there[at].value)["reason"] == "unreadable"
    assert verdict().good, verdict().faults


def test_an_owner_may_destroy_its_node():
    topics, verdict = nodes()
    edit(topics, 4, event="command-refused", reason="not-owner")
    assert "wrong-answer" in verdict().counts


@pytest.mark.parametrize(
    ("number", "other"),
    [
        (0, {"op": "add", "group": "G9", "members": ["a"]}),
        (2, {"op": "leave", "group": "G0", "member": "a"}),
        (3, {"op": "set", "group": "G0", "members": ["a"], "if_version": 0}),
    ],
)
def test_a_refusal_of_what_could_be_done(number, other):
    """As if another command had been written: the refusal stays."""
    topics, verdict = groups()
    there = topics.records["commands", 0]
    there[number] = replace(there[number], value=json.dumps(other).encode())
    assert "wrong-answer" in verdict().counts
