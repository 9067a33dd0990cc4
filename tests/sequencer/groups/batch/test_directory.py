"""The groups as they are now: refusals, versions, what is remembered of removed names."""

import numpy as np
import pytest

from sequencer.change import ChangeError
from sequencer.groups.batch.directory import Directory, First


def directory(remember_ms=100, **more):
    first = First(["A", "B", "C"], ["G0", "G1"], [np.array([0, 1]), np.array([1, 2])])
    found = Directory.begin(first, remember_ms)
    for name, value in more.items():
        setattr(found, name, value)
    return found


def names(found, group):
    return [found.subscribers[each] for each in found.groups[group].members]


def version(found, group):
    return int(found.version[found.groups[group].number])


@pytest.mark.parametrize(
    ("op", "group", "members", "reason"),
    [
        ("add", "G0", ["A"], "group-exists"),
        ("set", "G7", ["A"], "unknown-group"),
        ("remove", "G7", [], "unknown-group"),
        ("add", "G7", [], "no-members"),
        ("set", "G0", [], "no-members"),
        ("add", "G7", ["A"], "too-many-groups"),
        ("join", "G7", ["A"], "unknown-group"),
        ("leave", "G7", ["A"], "unknown-group"),
    ],
)
def test_what_is_refused_changes_nothing(op, group, members, reason):
    found = directory(groups_max=2)
    with pytest.raises(ChangeError) as refused:
        found.change(op, group, members, 5)
    assert refused.value.reason == reason
    wants_it = reason == "unknown-group" and op in ("set", "join")
    assert ("add it first" in str(refused.value)) == wants_it, "who removes it does not want it"
    could_go = reason == "no-members" and op != "add"
    assert ("remove it" in str(refused.value)) == could_go, "a group that is not there cannot go"
    assert list(found.groups) == ["G0", "G1"]
    assert found.subscribers == ["A", "B", "C"]


def test_a_set_begins_a_version_of_its_group_alone():
    found = directory()
    found.count[:] = [7, 9]
    found.change("set", "G0", ["Z", "A", "Y", "A"], 1)
    assert names(found, "G0") == ["A", "Y", "Z"]
    assert (version(found, "G0"), version(found, "G1")) == (1, 0)
    assert found.start.tolist() == [7, 0]
    assert found.count.tolist() == [7, 9]


def test_a_removed_name_goes_on_while_it_is_remembered():
    found = directory()
    found.count[0] = 7
    found.change("set", "G0", ["A"], 1)
    found.change("remove", "G0", [], 10)
    assert found.number("G0") == -1
    assert found.was_removed("G0", 110)
    assert not found.was_removed("G0", 111)
    found.change("add", "G0", ["B"], 110)
    assert version(found, "G0") == 2
    assert found.count[found.number("G0")] == found.start[found.number("G0")] == 7
    assert not found.was_removed("G0", 110)


def test_a_forgotten_name_and_new_ones_begin_above_all_that_were_forgotten():
    found = directory()
    found.count[0] = 7
    found.change("set", "G0", ["A"], 1)
    found.change("remove", "G0", [], 10)
    found.change("add", "new", ["A"], 110)
    assert version(found, "new") == 0, "G0 is remembered yet"
    found.change("add", "G0", ["A"], 111)
    assert version(found, "G0") == 2
    assert found.count[found.number("G0")] == 7
    found.change("add", "newer", ["A"], 112)
    assert version(found, "newer") == 2


def test_one_joins_and_leaves_and_whoever_is_there_or_not_changes_nothing():
    found = directory()
    found.count[0] = 7
    found.change("join", "G0", ["Z"], 1)
    assert names(found, "G0") == ["A", "B", "Z"]
    assert (version(found, "G0"), int(found.start[0])) == (1, 7)
    found.change("join", "G0", ["A"], 2)
    found.change("leave", "G0", ["C"], 2)
    found.change("leave", "G0", ["nobody"], 2)
    assert (version(found, "G0"), found.subscribers) == (1, ["A", "B", "C", "Z"])
    found.change("leave", "G0", ["A"], 3)
    found.change("leave", "G0", ["B"], 3)
    assert (version(found, "G0"), names(found, "G0")) == (3, ["Z"])
    with pytest.raises(ChangeError) as refused:
        found.change("leave", "G0", ["Z"], 4)
    assert refused.value.reason == "no-members"
    assert names(found, "G0") == ["Z"]


@pytest.mark.parametrize("op", ["set", "join", "leave", "remove"])
def test_a_change_for_another_version_is_refused(op):
    found = directory()
    found.change("set", "G0", ["A", "B"], 1)
    for expected in (0, 2):
        with pytest.raises(ChangeError) as refused:
            found.change(op, "G0", ["A"], 2, expected)
        assert (refused.value.reason, refused.value.version) == ("version-moved", 1)
    assert names(found, "G0") == ["A", "B"]
    found.change(op, "G0", ["A"], 2, 1)
