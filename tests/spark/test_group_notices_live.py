"""Commands in the input and notices, through the running service."""

import json

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import WarmService, called_json, status, verify, write_config

ORDERS = ("batch", "clock", "counter")
WAYS = {
    "by-batch": {},
    "network": {"sequencing": "network", "sender_order": "across-groups"},
}


def node_named(**more):
    return json.dumps({"node": "n", **more}).encode()


def sent_and_destroyed():
    """A handle that is sent, a message to the node, then the node's end, and one by a stranger."""
    return [
        Record(b"p1", node_named(owner="p1"), [("op", b"create-node")]),
        Record(b"p1", b"handle", [("to", b"p2,p3"), ("handles", b"@n")]),
        Record(b"p1", b"message", [("to", b"@n")]),
        Record(b"p2", node_named(id="strange"), [("op", b"destroy-node")]),
        Record(b"p1", node_named(id="back", peer="p3"), [("op", b"release")]),
        Record(b"p1", node_named(id="end"), [("op", b"destroy-node")]),
        Record(b"p1", b"late", [("to", b"@n")]),
    ]


def bus_of(order, prefix):
    roles = ("input", "output", "rejects", "events", "commands")
    transit = {} if order == "batch" else {"transit": f"{prefix}transit"}
    return {
        "discipline": "multicast",
        "order": order,
        "input_commands": ["create-node", "destroy-node", "release"],
        **{role: f"{prefix}{role}" for role in roles},
        **transit,
    }


def look_at(broker, bus, figures):
    """A valid handle, a delivery, then the notice; who gave the handle back gets none."""
    names = ("handles", "notice", "sequence")
    received = {
        (record.key, record.value): tuple(record.header(name) for name in names)
        for record in read_all(broker.bootstrap, bus["output"])
    }
    assert received == {
        (b"p2", b"handle"): (b"@n", None, b"0"),
        (b"p3", b"handle"): (b"@n", None, b"0"),
        (b"p1", b"message"): (None, None, b"0"),
        (b"p2", None): (None, b"n", b"1"),
    }
    answers = [json.loads(each.value) for each in read_all(broker.bootstrap, bus["events"])]
    why = {each["command"]: each.get("reason") for each in answers if each["command"]}
    assert why == {"strange": "not-owner", "end": None, "back": None}
    (back,) = [each for each in answers if each["command"] == "back"]
    assert (back["from"], back["sequence"]) == ("p1", 1)
    (rejected,) = read_all(broker.bootstrap, bus["rejects"])
    assert rejected.header("reject-reason") == b"destroyed-node"
    counted = ("in", "commands", "delivered", "notices", "held", "transit")
    assert [figures[name] for name in counted] == [3, 4, 3, 1, 0, 0]


def market_of(way, prefix):
    roles = ("input", "output", "rejects", "events", "commands", *["transit"] * bool(WAYS[way]))
    return {
        "discipline": "group",
        "groups": {"G0": ["A", "B"], "G1": ["A", "C"]},
        "notices": True,
        "input_commands": ["join", "remove"],
        **WAYS[way],
        **{role: f"{prefix}{role}" for role in roles},
    }


def published_and_changed():
    joining = json.dumps({"group": "G0", "member": "C", "id": "j", "by": "me"}).encode()
    ending = json.dumps({"group": "G0", "id": "r"}).encode()
    message, other = [("group", b"G0")], [("group", b"G1")]
    return [
        Record(b"p", b"0", other),
        Record(b"p", b"1", message),
        Record(b"p", joining, [("op", b"join")]),
        Record(b"p", b"2", message),
        Record(b"p", b"4", other),
        Record(b"p", ending, [("op", b"remove")]),
        Record(b"p", b"3", message),
    ]


def look_at_groups(broker, market, figures):
    """Who joins gets what comes behind, and all members are told in between."""
    got, stamps = {}, {}
    for record in read_all(broker.bootstrap, market["output"]):
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
    counted = [figures[name] for name in ("in", "commands", "delivered", "notices")]
    assert counted == [5, 2, 9, 6]
    assert (figures["overlaps"], figures["held"]) == ([], 0)
    assert figures["rejected"] == {"removed-group": 1}


@pytest.mark.timeout(300)
def test_commands_stand_where_they_lie_and_members_are_told(broker, topic_prefix, tmp_path):
    markets = {way: market_of(way, f"{topic_prefix}{way}.") for way in WAYS}
    buses = {order: bus_of(order, f"{topic_prefix}{order}.") for order in ORDERS}
    for pipeline in (*markets.values(), *buses.values()):
        create_topics(broker.bootstrap, {pipeline["input"]: 1, pipeline["commands"]: 1})
    for bus in buses.values():
        produce(broker.bootstrap, bus["input"], sent_and_destroyed())
    for market in markets.values():
        produce(broker.bootstrap, market["input"], published_and_changed())
    config = write_config(tmp_path, broker.bootstrap, {**markets, **buses})
    with WarmService(config, "--once") as service:
        assert service.poll(200) == 0, service.said()
    for way in WAYS:
        look_at_groups(broker, markets[way], status(config)[way])
    for order in ORDERS:
        look_at(broker, buses[order], status(config)[order])
    code, said = verify(config)
    assert code == 0, said
    listed = called_json("group", "list", config, "--pipeline", "by-batch")
    assert [each["group"] for each in listed] == ["G1"]
