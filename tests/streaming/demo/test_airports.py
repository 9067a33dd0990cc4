"""The scene of airports and airlines, looked at without Kafka."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from sequencer.overlaps.routes import Directory
from streaming.config.values import name_fault
from streaming.demo import airports
from streaming.demo.airports import ABSENT_MAX, DESTINATIONS, scene
from streaming.demo.flights import AIRPORTS
from streaming.errors import ConfigError

FLIGHTS = 3000


@pytest.fixture(scope="module")
def found():
    return scene(FLIGHTS)


def members_at(scene, place):
    """The membership when so many publishes are out."""
    groups = {name: set(some) for name, some in scene.groups.items()}
    for command in scene.commands:
        if command.after <= place:
            told = json.loads(command.value)
            groups[told["group"]] = set(told["members"])
    return groups


def test_groups_are_airports_and_subscribers_airlines(found):
    assert len(found.groups) == len(AIRPORTS) + DESTINATIONS
    assert set(AIRPORTS) < set(found.groups)
    assert {"ORD", "ATL", "LAX"} < set(found.groups)
    assert found.groups["MIA"] == ("AA", "DL", "UA")
    assert list(found.groups) == sorted(found.groups)
    names = {*found.groups, *(member for some in found.groups.values() for member in some)}
    assert not [name for name in names if name_fault(name)]


def test_a_departure_goes_to_the_origin_and_to_a_large_destination(found):
    notices = [p for p in found.publishes if p.answers is None]
    told = [json.loads(p.value)["departed"] for p in notices]
    assert {p.sender for p in notices} == set(AIRPORTS)
    assert all(p.sender == each["from"] for p, each in zip(notices, told, strict=True))
    # A flight number is used once a day from an airport.
    groups = Counter(json.dumps(each) for each in told)
    assert len(groups) == FLIGHTS
    for p, each in zip(notices, told, strict=True):
        assert p.group in (each["from"], each["to"])
        assert groups[json.dumps(each)] == (2 if each["to"] in found.groups else 1)
    assert [each["scheduled"][:10] for each in told] == sorted(
        each["scheduled"][:10] for each in told
    )


def test_an_answer_follows_what_its_sender_has_read(found):
    answers = [(at, p) for at, p in enumerate(found.publishes) if p.answers is not None]
    assert len(answers) > 50
    for at, p in answers:
        cause = found.publishes[p.answers]
        assert p.answers < at
        assert cause.answers is None
        assert cause.group == p.group
        departed, expected = json.loads(cause.value)["departed"], json.loads(p.value)
        assert departed["flight"] == expected["expect late"]
        assert departed["flight"].startswith(p.sender)
        assert departed["late"] == expected["minutes"] >= airports.LATE_MINUTES


def test_only_members_from_beginning_to_end_answer(found):
    always = {name: set(some) for name, some in found.groups.items()}
    for command in found.commands:
        told = json.loads(command.value)
        always[told["group"]] &= set(told["members"])
    for p in found.publishes:
        assert p.answers is None or p.sender in always[p.group]


def test_airlines_leave_after_a_flight_and_are_back_before_the_next(found):
    assert len(found.commands) == 2 * ABSENT_MAX
    assert [c.after for c in found.commands] == sorted(c.after for c in found.commands)
    for at, p in enumerate(found.publishes):
        if p.answers is None and (told := json.loads(p.value)["departed"]):
            airline = told["flight"][:2]
            assert airline in members_at(found, at)[p.group], f"{at}: {p}"


def test_commands_are_accepted_and_change_something(found):
    directory = Directory(4, lambda node: node, 1000)
    directory.begin(found.groups)
    ids = []
    for command in found.commands:
        assert 0 < command.after < len(found.publishes)
        told = json.loads(command.value)
        assert told["op"] == "set"
        before = directory.groups[told["group"]]
        directory.change(told["op"], told["group"], told["members"], 0)
        number, airline, what, airport = told["id"].replace(":", "").split()
        changed = set(before) ^ set(told["members"])
        assert changed == {airline}
        assert (airline in told["members"]) == (what == "joins")
        assert airport == told["group"]
        ids.append(number)
    assert ids == [str(at + 1) for at in range(len(ids))]
    assert directory.groups == found.groups  # all are back


def test_the_same_again_and_longer_scenes_begin_alike(found):
    assert scene(FLIGHTS) == found
    few = scene(100)
    notices = [(p.sender, p.group, p.value) for p in few.publishes if p.answers is None]
    more = [(p.sender, p.group, p.value) for p in found.publishes if p.answers is None]
    assert notices == more[: len(notices)]


@pytest.mark.parametrize("flights", [1, 2, 20])
def test_small_scenes(flights):
    small = scene(flights)
    assert flights <= len(small.publishes) <= 3 * flights
    assert all(
        len(some) >= 2
        for at in range(len(small.publishes))
        for some in members_at(small, at).values()
    )


def test_a_number_below_0_is_refused():
    with pytest.raises(ConfigError, match="-1 flights"):
        scene(-1)
