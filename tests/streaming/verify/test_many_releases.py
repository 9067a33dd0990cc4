"""Many releases of one peer, each held against its stream in one pass over both; many commands."""

import json
import random
from types import SimpleNamespace

import pytest

from streaming.verify.accounts import Material, Settings
from streaming.verify.faults import Verdict
from streaming.verify.multicast import judge
from streaming.verify.multicast_deliveries import Held
from streaming.verify.node_ends import judge_streams
from streaming.verify.records import Record


@pytest.mark.parametrize("seed", range(200))
def test_each_release_on_a_wrong_side_of_a_delivery_is_found(seed):
    rng = random.Random(seed)
    count = rng.randrange(1, 6)
    stamps = [(10 * n, b"a") for n in range(count)]
    held = [Held(17, n, n, b"@n", b"") for n in range(count)]
    releases = {}
    for at in range(rng.randrange(5)):
        near = rng.randrange(count + 1)
        point = near if rng.random() < 0.8 else rng.randrange(count + 1)
        fields = {"incarnation": 17, "sequence": point} if rng.random() < 0.9 else {}
        answer = SimpleNamespace(fields=fields, where=f"events/0@{at}")
        releases[10 * near - 5, b"%d" % at] = SimpleNamespace(others=("B",), answers=[answer])
    expected = sum(
        (handle.sequence < release.answers[0].fields["sequence"])
        != (stamps[handle.message] < stamp)
        for handle in held
        for stamp, release in releases.items()
        if release.answers[0].fields
    )
    deliveries = SimpleNamespace(stamps=stamps, held=lambda _: held, name=str)
    verdict = Verdict("p")
    judge_streams(verdict, releases, deliveries)
    assert verdict.counts.get("wrong-answer", 0) == expected


def answered(at, topic, offset, **fields):
    place = {"topic": topic, "partition": 0, "offset": offset}
    event = {"event": "command-done", "id": f"e{at}", "command": None, **place, **fields}
    return Record("events", 0, at, 1, b"", json.dumps(event).encode(), ())


@pytest.mark.timeout(60)
def test_a_peer_that_gives_every_handle_back_is_judged():
    count = 15_000
    create = {"op": "create-node", "node": "n", "owner": "A"}
    commands = [Record("commands", 0, 0, 1, None, json.dumps(create).encode(), ())]
    events = [answered(0, "commands", 0)]
    inputs, outputs = [], []
    for n in range(count):
        own = (("to", b"B"), ("handles", b"@n"))
        inputs.append(Record("in", 0, 2 * n, 1, b"a", b"%d" % n, own))
        added = (("from", b"a"), ("destination", b"B"), ("timestamp", b"%d" % (2 * n)))
        added += (("handles", b"@n"), ("sequence", b"%d" % n), ("incarnation", b"17"))
        outputs.append(Record("out", 0, n, 1, b"B", b"%d" % n, (*own, *added)))
        release = json.dumps({"node": "n", "peer": "B"}).encode()
        inputs.append(Record("in", 0, 2 * n + 1, 1, b"B", release, (("op", b"release"),)))
        stamp = {"timestamp": 2 * n + 1, "from": "B", "incarnation": 17, "sequence": n + 1}
        events.append(answered(n + 1, "in", 2 * n + 1, **stamp))
    settings = Settings(
        pipeline="p", output="out", partitions={"out": 1}, input_commands=("release",)
    )
    verdict = judge(settings, Material(outputs, (), events, commands, inputs))
    assert verdict.good, verdict.faults[:3]
    assert verdict.looked_at["commands"] == count + 1


@pytest.mark.timeout(30)
def test_a_peer_that_holds_many_handles_and_gives_each_back_is_judged():
    count, at_once = 50_000, 1_000
    commands, events, inputs, outputs = [], [], [], []

    def done(fields, **more):
        at, value = len(commands), json.dumps(fields).encode()
        commands.append(Record("commands", 0, at, 1, None, value, ()))
        events.append(answered(at, "commands", at, **more))

    for n in range(count):
        done({"op": "create-node", "node": f"n{n}", "owner": "A"})
    for n in range(count // at_once):
        handles = ",".join(f"@n{each}" for each in range(n * at_once, (n + 1) * at_once)).encode()
        own = (("to", b"B"), ("handles", handles))
        inputs.append(Record("in", 0, n, 1, b"a", b"%d" % n, own))
        added = (("from", b"a"), ("destination", b"B"), ("timestamp", b"%d" % n))
        added += (("handles", handles), ("sequence", b"%d" % n), ("incarnation", b"17"))
        outputs.append(Record("out", 0, n, 1, b"B", b"%d" % n, (*own, *added)))
    for n in range(count):
        point = {"incarnation": 17, "sequence": count // at_once}
        done({"op": "release", "node": f"n{n}", "peer": "B"}, **point)
    settings = Settings(pipeline="p", output="out", partitions={"out": 1})
    verdict = judge(settings, Material(outputs, (), events, commands, inputs))
    assert verdict.good, verdict.faults[:3]


@pytest.mark.timeout(30)
def test_many_commands_about_a_node_that_wait_for_an_answer_are_judged():
    create = {"op": "create-node", "node": "n", "owner": "A"}
    asked = [create] * 10_000 + [{"op": "destroy-node", "node": "n"}] * 10_000
    commands = [
        Record("commands", 0, at, 1, None, json.dumps(fields).encode(), ())
        for at, fields in enumerate(asked)
    ]
    settings = Settings(pipeline="p", output="out", partitions={"out": 1})
    verdict = judge(settings, Material([], (), [], commands, []))
    assert verdict.looked_at["commands"] == len(asked)
