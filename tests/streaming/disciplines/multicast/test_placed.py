"""Commands in the input by clocks and by the counter: placed like a message of their sender."""

import json
from dataclasses import replace

import pytest

from streaming.disciplines.multicast.protocol.core import MulticastOperator
from streaming.disciplines.multicast.protocol.route import route
from tests.seeds import seeds
from tests.streaming.disciplines.multicast.floors import events, plan_for
from tests.streaming.disciplines.multicast.placed_model import OPS, Model, ask, history, judged, put
from tests.streaming.exchange_harness import Floor
from tests.streaming.verify.plants import with_header
from tests.streaming.verify.worlds import Topics

ORDERS = ("clock", "counter")


def floor_of(topics, order, seed=1, **more):
    plan = plan_for(order, input_commands=OPS, **more)
    return Floor(plan, MulticastOperator(plan), route(plan), topics, seed)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", seeds(6, 200))
def test_random_histories_are_those_of_one_step_at_a_time(seed, order):
    topics = history(seed)
    floor = floor_of(topics, order, seed, shards=1 + seed % 5)
    floor.run(whole=seed % 4 == 3)
    Model(topics).check()
    verdict = judged(topics)
    assert verdict.good, verdict.faults[:3]
    totals = floor.totals()
    commands = [r for r in topics.all("in") if dict(r.headers).get("op")]
    assert totals.commands == len(commands)
    assert totals.seen == len(topics.all("in")) - len(commands)
    assert totals.held == totals.transit == totals.blocked == 0


def ending(order, key="p1"):
    """A handle is sent, then a message to the node, then the node is destroyed, in one batch."""
    topics = Topics()
    ask(topics, "p1", "create-node", node="n", owner="p1")
    put(topics, "p1", b"handle", [("to", "p2"), ("handles", "@n")])
    put(topics, "p1", b"message", [("to", "@n")])
    ask(topics, key, "destroy-node", node="n", id="end")
    put(topics, "p1", b"late", [("to", "@n")])
    floor = floor_of(topics, order)
    floor.run(whole=True)
    return topics, floor.totals()


@pytest.mark.parametrize("order", ORDERS)
def test_a_destruction_comes_after_what_its_owner_sent_before_it(order):
    topics, totals = ending(order)
    got = {(r.key, r.value): dict(r.headers) for r in topics.all("out")}
    assert got.keys() == {(b"p2", b"handle"), (b"p1", b"message"), (b"p2", None)}
    assert got[b"p2", b"handle"]["handles"] == b"@n"
    assert (got[b"p2", None]["notice"], got[b"p2", None]["sequence"]) == (b"n", b"1")
    (rejected,) = topics.all("rejects")
    assert (rejected.value, dict(rejected.headers)["reject-reason"]) == (b"late", b"destroyed-node")
    assert (totals.seen, totals.commands, totals.delivered, totals.notices) == (3, 2, 2, 1)
    assert judged(topics).good


@pytest.mark.parametrize("order", ORDERS)
def test_who_does_not_own_a_node_does_not_destroy_it(order):
    topics, totals = ending(order, key="p2")
    answers = [json.loads(record.value) for record in topics.all("events")]
    refused = [each for each in answers if each["event"] == "command-refused"]
    assert [(each["command"], each["reason"]) for each in refused] == [("end", "not-owner")]
    assert totals.delivered == 3
    assert judged(topics).good


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("again", [False, True])
def test_a_release_stands_between_its_senders_messages(order, again):
    """Who gave a handle back before the node ends is not told; who got it again after that is."""
    topics = Topics()
    ask(topics, "p1", "create-node", node="n", owner="p1")
    put(topics, "p1", b"0", [("to", "p2,p3"), ("handles", "@n")])
    ask(topics, "p1", "release", node="n", peer="p2", id="back", by="me")
    if again:
        put(topics, "p1", b"1", [("to", "p2"), ("handles", "@n")])
    ask(topics, "p1", "destroy-node", node="n")
    floor_of(topics, order).run(whole=True)
    told = {r.key for r in topics.all("out") if r.value is None}
    assert told == ({b"p2", b"p3"} if again else {b"p3"})
    (answer,) = [a for r in topics.all("events") if (a := json.loads(r.value))["command"] == "back"]
    assert (answer["sequence"], answer["from"], answer["by"]) == (1, "p1", "me")
    assert judged(topics).good


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("where", ["cic", "icc", "cii"])
def test_a_name_may_be_taken_again_before_the_destruction_is_answered(order, where):
    """The service stood still for longer than a destroyed node is remembered.

    ``where``: whether commands are in the commands topic or in the input.
    """
    topics = Topics()
    floor = floor_of(topics, order, shards=3, retire_after_ms=1000)
    begin_ms, places = floor.now_ms, iter(where)

    def do(op, owner):
        command = {"op": op, "node": "n", "owner": owner}
        if next(places) == "c":
            topics.put("commands", 0, floor.now_ms, None, json.dumps(command).encode())
        else:
            del command["op"]
            sent(owner.encode(), json.dumps(command).encode(), ("op", op.encode()))
        floor.batch(whole=True)

    def sent(key, value, *headers):
        topics.put("in", 0, floor.now_ms, key, value, headers)

    do("create-node", "o")
    sent(b"s", b"reached", ("to", b"a,b,c,@n"), ("handles", b"@n"))
    floor.run(whole=True)
    do("destroy-node", "o")
    floor.now_ms += 2000
    sent(b"s", b"late", ("to", b"@n"))
    floor.batch(whole=True)
    do("create-node", "p")
    sent(b"s", b"new", ("to", b"@n"))
    floor.run(whole=True)
    answers = sorted((each["at"], each["op"]) for each in events(floor, "command-done"))
    assert [op for _, op in answers] == ["create-node", "create-node", "destroy-node"]
    assert [record.value for record in topics.all("rejects")] == [b"late"]
    verdict = judged(topics, 1000, floor.now_ms)
    assert verdict.good, verdict.faults
    verdict = judged(topics, floor.now_ms - begin_ms + 1, floor.now_ms)
    assert verdict.counts.keys() >= {"wrong-answer", "wrong-reason"}, "it was forgotten too early"


@pytest.mark.parametrize("order", ORDERS)
def test_what_waits_in_the_state_keeps_its_place(order, monkeypatch):
    """Only two destinations at a time are on their way; commands wait like messages."""
    monkeypatch.setattr("streaming.disciplines.multicast.protocol.core.IN_FLIGHT_MAX", 2)
    topics = history(5)
    floor_of(topics, order, 5).run()
    Model(topics).check()


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_not_allowed_is_a_message_in_one_shard(order):
    topics = Topics()
    put(topics, "p1", b"{}", [("to", "p2"), ("op", "destroy-node")])
    plan = plan_for(order, input_commands=["release"])
    Floor(plan, MulticastOperator(plan), route(plan), topics, 1).run()
    assert [record.key for record in topics.all("out")] == [b"p2"]


@pytest.mark.parametrize("order", ORDERS)
def test_the_judge_finds_commands_that_are_not_in_their_place(order):
    for op, fault in (("destroy-node", "sender-order"), ("release", "wrong-answer")):
        topics = Topics()
        ask(topics, "p1", "create-node", node="n", owner="p1")
        for value in (b"0", b"1"):
            put(topics, "p1", value, [("to", "p2"), ("handles", "@n")])
        ask(topics, "p1", op, node="n", peer="p2", id="x")
        floor_of(topics, order).run(whole=True)
        assert judged(topics).good
        for place, there in topics.records.items():
            for at, record in enumerate(there):
                event = json.loads(record.value) if place[0] == "events" else {}
                if event.get("command") == "x":
                    there[at] = replace(
                        record, value=json.dumps(event | {"timestamp": 1, "sequence": 0}).encode()
                    )
                elif place[0] == "out" and record.value is None:
                    headers = [(n, b"1" if n == "timestamp" else v) for n, v in record.headers]
                    there[at] = replace(record, headers=tuple(headers))
        assert judged(topics).counts.keys() & {fault, "same-stamp"}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kept", [True, False])
def test_the_judge_finds_a_notice_that_is_missing_before_a_release(order, kept):
    topics = Topics()
    ask(topics, "p1", "create-node", node="n", owner="p1")
    put(topics, "p1", b"0", [("to", "p2"), ("handles", "@n")])
    ask(topics, "p1", "destroy-node", node="n")
    put(topics, "p1", b"1", [("to", "p2")])
    ask(topics, "p1", "release", node="n", peer="p2")
    floor_of(topics, order).run(whole=True)
    (place,) = {(r.topic, r.partition) for r in topics.all("out")}
    if not kept:
        first, _, last = topics.records[place]
        last = with_header(last, "sequence", b"1")
        topics.records[place] = [first, last]
        for answers in (some for (name, _), some in topics.records.items() if name == "events"):
            for at, record in enumerate(answers):
                value = record.value.replace(b'"sequence": 3', b'"sequence": 2')
                answers[at] = replace(record, value=value)
    assert judged(topics).counts.keys() == (set() if kept else {"missing-notice"})


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("forgets", [True, False])
@pytest.mark.parametrize("peer", ["p2", "p6"])  # in the owner's shard, and in another
def test_a_destruction_comes_after_what_gave_handles_to_who_let_go(order, asked, forgets, peer):
    """By clocks the owner's may be far behind those of peers that had the handle."""
    topics = Topics()
    ask(topics, "p1", "create-node", node="n", owner="p1")
    for number in range(9):
        put(topics, "p3", b"%d" % number, [("to", peer), ("handles", "@n")])
    floor = floor_of(topics, order, shards=3, retire_after_ms=1000)
    floor.run(whole=True)
    if forgets:
        floor.now_ms += 2000
    elif asked:
        ask(topics, peer, "release", node="n", peer=peer)
    else:
        command = {"op": "release", "node": "n", "peer": peer}
        topics.put("commands", 0, 1000, None, json.dumps(command).encode())
    for _ in range(9):
        put(topics, "p4", b"", [("to", "p5")])
        floor.run(whole=True)
    ask(topics, "p1", "destroy-node", node="n")
    floor.run(whole=True)
    verdict = judged(topics)
    assert verdict.good, verdict.faults
    (stamp,) = [
        end["timestamp"] for end in events(floor, "command-done") if end["op"] == "destroy-node"
    ]
    got = [each for each in topics.all("out") if each.key == peer.encode()]
    given = [dict(each.headers) for each in got if each.value is not None]
    assert len(given) == 9
    assert all(int(headers["timestamp"]) < stamp for headers in given)
