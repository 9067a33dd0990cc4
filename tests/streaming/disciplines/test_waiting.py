"""Who waits for what, and since when: `status --blocked` of network, clock and counter."""

import json
from collections import Counter

import pytest

from streaming.arrow.output import at
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.groups.network.describe import describe as subscribers
from streaming.disciplines.multicast.protocol.describe import describe as peers
from streaming.disciplines.waiting import WAITING_MAX, Wait, describe_waiting, waiting_report
from tests.streaming.disciplines.groups import networks
from tests.streaming.disciplines.multicast import floors
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts

CASES = [("network", 1), ("network", 5), ("clock", 2), ("counter", 7)]
"""In each of them somebody waits, and somebody who waits gets something."""
LONG = [
    pytest.param(kind, seed, marks=pytest.mark.slow)
    for kind in ("network", "clock", "counter")
    for seed in range(10, 60)
]


def floor_for(kind, seed):
    if kind == "network":
        return networks.floor_for(random_groups(seed, commands=0.1, steps=80), seed, shards=4)
    return floors.floor_for(random_multicasts(seed, steps=50, order=kind), seed, shards=4)


def held(kind, floor):
    """For each subscriber or peer how many messages are held for it, by a look at the state."""
    describe, key = (subscribers, "subscriber") if kind == "network" else (peers, "peer")
    told = [each for core in floor.cores() for each in describe(core)]
    return {each[key]: each["held"] for each in told if each["held"]}


@pytest.mark.parametrize(("kind", "seed"), [*CASES, *LONG])
def test_those_are_listed_that_wait_since_they_began_to(kind, seed):
    """After every batch, whatever it has. ``since``: when each began, or got something last.

    On the network a line's wait counts: it may have begun later than its subscribers', and goes
    on where they get messages of others.
    """
    floor = floor_for(kind, seed)
    discipline = DISCIPLINES["group" if kind == "network" else "multicast"]
    since, begun, seen, got, moved = {}, {}, set(), Counter(), 0
    while floor.left():
        floor.batch()
        rows = discipline.waiting(None, floor.waiting.values(), None)
        assert len(rows) == floor.totals().blocked
        found = {row[discipline.key]: row for row in rows}
        looked = held(kind, floor)
        assert {name: row["held"] for name, row in found.items() if row["held"]} == looked
        assert all(row["next"] for row in rows)
        before, got = got, Counter(each.key.decode() for each in floor.topics.all("out"))
        stays = {name for name in found if name in since and got[name] == before[name]}
        moved += len(since.keys() & found.keys() - stays)
        since = {name: since[name] if name in stays else floor.now_ms for name in found}
        begun = {name: begun.get(name, floor.now_ms) for name in found}
        told = {name: row["since"] for name, row in found.items()}
        if kind == "network":
            assert all(at(begun[name]) <= time <= at(floor.now_ms) for name, time in told.items())
        else:
            assert told == {name: at(time) for name, time in since.items()}
        assert list(told.values()) == sorted(told.values())
        seen |= {row["next"] for row in rows}
    assert rows == []
    assert (seen and moved) or (kind, seed) not in CASES


def test_the_longest_are_told_and_keys_of_any_bytes():
    many = {b"p%d" % n: Wait(1_000 - n % 7, "x", n) for n in range(WAITING_MAX + 50)}
    text = waiting_report({**many, b"\xff": Wait(1, "G0 5", 3)})
    assert len(json.loads(text)) == WAITING_MAX
    first, *others = describe_waiting([text, "[]"], "peer", 3)
    assert first == {
        "peer": {"base64": "/w=="}, "next": "G0 5", "since": "1970-01-01T00:00:00.001Z", "held": 3
    }  # fmt: skip
    assert [each["peer"] for each in others] == ["p104", "p111"]
