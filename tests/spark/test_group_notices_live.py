"""Commands in the input and notices, through the running service."""

import json

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import WarmService, called_json, status, verify, write_config


def node_named(**more):
    return json.dumps({"node": "n", **more}).encode()


def sent_and_destroyed():
    """A handle that is sent, a message to the node, then the node's end, and one by a stranger."""
    return [
        Record(b"p1", node_named(owner="p1"), [("op", b"create-node")]),
        Record(b"p1", b"handle", [("to", b"p2"), ("handles", b"@n")]),
        Record(b"p1", b"message", [("to", b"@n")]),
        Record(b"p2", node_named(id="strange"), [("op", b"destroy-node")]),
        Record(b"p1", node_named(id="end"), [("op", b"destroy-node")]),
        Record(b"p1", b"late", [("to", b"@n")]),
    ]


@pytest.mark.timeout(300)
def test_commands_stand_where_they_lie_and_members_are_told(broker, topic_prefix, tmp_path):
    roles = ("input", "output", "rejects", "events", "commands")
    topics = {role: f"{topic_prefix}{role}" for role in roles}
    create_topics(broker.bootstrap, {topics["input"]: 1, topics["commands"]: 1})
    pipeline = {
        "discipline": "group",
        "groups": {"G0": ["A", "B"], "G1": ["A", "C"]},
        "notices": True,
        "input_commands": ["join", "remove"],
        **topics,
    }
    bus_topics = {role: f"{topic_prefix}bus.{role}" for role in roles}
    create_topics(broker.bootstrap, {bus_topics["input"]: 1, bus_topics["commands"]: 1})
    bus = {
        "discipline": "multicast",
        "input_commands": ["create-node", "destroy-node"],
        **bus_topics,
    }
    config = write_config(tmp_path, broker.bootstrap, {"market": pipeline, "bus": bus})
    joining = json.dumps({"group": "G0", "member": "C", "id": "j", "by": "me"}).encode()
    ending = json.dumps({"group": "G0", "id": "r"}).encode()
    message, other = [("group", b"G0")], [("group", b"G1")]
    records = [
        Record(b"p", b"0", other),
        Record(b"p", b"1", message),
        Record(b"p", joining, [("op", b"join")]),
        Record(b"p", b"2", message),
        Record(b"p", b"4", other),
        Record(b"p", ending, [("op", b"remove")]),
        Record(b"p", b"3", message),
    ]
    produce(broker.bootstrap, topics["input"], records)
    produce(broker.bootstrap, bus_topics["input"], sent_and_destroyed())
    with WarmService(config, "--once") as service:
        assert service.poll(200) == 0, service.said()
    got, stamps = {}, {}
    for record in read_all(broker.bootstrap, topics["output"]):
        got.setdefault(record.key, []).append(record.value or record.header("notice"))
        stamps[record.value] = record.header("stamps")
    whole = [b"0", b"1", b"joined", b"2", b"4", b"removed"]
    assert got == {
        b"A": whole,
        b"B": [b"1", b"joined", b"2", b"removed"],
        b"C": [b"0", *whole[2:]],
    }
    assert stamps[b"0"] is stamps[b"1"] is None
    assert (stamps[b"2"], stamps[b"4"]) == (b'[["G0","G1",0]]', b'[["G0","G1",1]]')
    figures = status(config)["market"]
    counted = [figures[name] for name in ("in", "commands", "delivered", "notices")]
    assert counted == [5, 2, 9, 6]
    assert figures["overlaps"] == []
    assert figures["rejected"] == {"removed-group": 1}
    names = ("handles", "notice", "timestamp")
    received = {
        (record.key, record.value): tuple(record.header(name) for name in names)
        for record in read_all(broker.bootstrap, bus_topics["output"])
    }
    assert received == {
        (b"p2", b"handle"): (b"@n", None, b"2"),
        (b"p1", b"message"): (None, None, b"3"),
        (b"p2", None): (None, b"n", b"5"),
    }
    answers = [json.loads(each.value) for each in read_all(broker.bootstrap, bus_topics["events"])]
    why = {each["command"]: each.get("reason") for each in answers if each["command"]}
    assert why == {"strange": "not-owner", "end": None}
    figures = status(config)["bus"]
    assert [figures[name] for name in ("in", "commands", "delivered", "notices")] == [3, 3, 2, 1]
    code, said = verify(config)
    assert code == 0, said
    assert [each["group"] for each in called_json("group", "list", config)] == ["G1"]
