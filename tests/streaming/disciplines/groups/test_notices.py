"""What a notice of a change says."""

import json

import pytest

from streaming.disciplines.groups.notices import NAMES_MAX, detail


@pytest.mark.parametrize("count", [0, NAMES_MAX, NAMES_MAX + 1])
def test_a_list_has_a_hundred_names_and_says_how_many_there_are(count):
    assert NAMES_MAX == 100
    names = [f"s{n:03}" for n in range(count)]
    event = {"event": "group-changed", "group": "G", "version": 2, "members": ["s000", "x"]}
    said = json.loads(detail(event, "set", reversed(names), ["y"], 2))
    assert said == {
        "event": "group-changed",
        "group": "G",
        "version": 2,
        "joined": names[:100],
        "joined_count": count,
        "left": ["y"],
        "left_count": 1,
        "count": 2,
    }


@pytest.mark.parametrize("op", ["join", "remove"])
def test_a_change_of_one_member_and_an_end_are_told_as_their_events_are(op):
    event = {"event": "group-changed", "group": "G", "version": 2, "joined": "s", "count": 3}
    assert json.loads(detail(event, op, ["s"], [], 3)) == event
