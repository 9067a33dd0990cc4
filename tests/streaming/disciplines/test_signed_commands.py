"""Who gave a command and why stand in its answer, done or refused, in every order."""

import json

import pytest

from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.route import route as network_route
from streaming.disciplines.multicast.protocol.core import MulticastOperator
from streaming.disciplines.multicast.protocol.route import route as bus_route
from tests.streaming.disciplines.groups.networks import plan_for as network_plan
from tests.streaming.disciplines.groups.stages import stage_for as groups_stage
from tests.streaming.disciplines.multicast.batched_stages import stage_for as multicast_stage
from tests.streaming.disciplines.multicast.floors import plan_for as bus_plan
from tests.streaming.exchange_harness import Floor
from tests.streaming.verify.worlds import Topics

GROUPS = {"G": ["A", "B"]}
OF_GROUPS = [
    ("done", {"op": "set", "group": "G", "members": ["A", "B", "C"], "if_version": 0}),
    ("done", {"op": "join", "group": "G", "member": "D"}),
    ("done", {"op": "leave", "group": "G", "member": "D"}),
    ("done", {"op": "add", "group": "H", "members": ["A", "B"]}),
    ("done", {"op": "remove", "group": "H"}),
    ("refused", {"op": "remove", "group": "X"}),
    ("refused", {"op": "leave", "group": "G", "member": "A", "if_version": 9}),
    ("refused", {"op": "add", "group": "", "members": ["A"]}),
    ("refused", {"op": "join", "group": "G", "member": "E", "if_versoin": 9}),
    ("refused", {"op": "set", "group": "G", "member": "A"}),
]
OF_NODES = [
    ("done", {"op": "create-node", "node": "n", "owner": "p1"}),
    ("done", {"op": "release", "node": "n", "peer": "p2"}),
    ("done", {"op": "destroy-node", "node": "n"}),
    ("refused", {"op": "destroy-node", "node": "x"}),
    ("refused", {"op": "create-node", "node": "", "owner": "p1"}),
    ("refused", {"op": "create-node", "node": "m", "owner": "p1", "ower": "p2"}),
    ("refused", {"op": "create-node", "node": "m", "owner": "p1", "w" * 200_000: "p2"}),
]
SIGNED = {"by": "ann", "why": "moved house"}
NAMES = ["op", "group", "member", "node", "owner", "peer"]
FIRST = ["event", "id", "at", "command", "topic", "partition", "offset"]
ASKED = ["op", "group", "node", "member", "members", "owner", "peer", "if_version", "by", "why"]


def batch_of_groups(topics):
    return groups_stage(GROUPS, topics)


def network_of_groups(topics):
    plan = network_plan(GROUPS)
    return Floor(plan, NetworkOperator(plan), network_route(plan), topics, 1)


def bus(order):
    def floor_of(topics):
        plan = bus_plan(order)
        return Floor(plan, MulticastOperator(plan), bus_route(plan), topics, 1)

    return floor_of


@pytest.mark.parametrize(
    ("made", "commands"),
    [
        (batch_of_groups, OF_GROUPS),
        (network_of_groups, OF_GROUPS),
        (lambda topics: multicast_stage(topics, 1), OF_NODES),
        (bus("clock"), OF_NODES),
        (bus("counter"), OF_NODES),
    ],
    ids=["group-batch", "group-network", "multicast-batch", "multicast-clock", "multicast-counter"],
)
def test_who_gave_a_command_and_why_stand_in_its_answer(made, commands):
    topics = Topics()
    for number, (_, command) in enumerate(commands):
        value = json.dumps({**command, **SIGNED, "id": f"c{number}"}).encode()
        topics.put("commands", 0, 1000, None, value)
    unsigned = json.dumps({**commands[-1][1], "id": "unsigned", "by": 1}).encode()
    topics.put("commands", 0, 1000, None, unsigned)
    made(topics).run()
    events = [json.loads(record.value) for record in topics.all("events")]
    answers = {each["command"]: each for each in events if each["event"].startswith("command-")}
    for number, (end, command) in enumerate(commands):
        answer = answers.pop(f"c{number}")
        assert answer["event"] == f"command-{end}", (command, answer)
        assert {name: answer.get(name) for name in SIGNED} == SIGNED, command
        own = {name: command[name] for name in NAMES if command.get(name)}
        assert {name: answer[name] for name in NAMES if name in answer} == own, "its own fields"
        assert list(answer)[: len(FIRST)] == FIRST, "one order in every discipline"
        assert len(answer.get("detail", "")) < 1_000
        asked = [name for name in answer if name in ASKED]
        assert asked == [name for name in ASKED if name in answer]
    (answer,) = answers.values()
    assert (answer["event"], answer["reason"], "by" in answer) == (
        "command-refused",
        "bad-by",
        False,
    )
