"""What a command about a group would change, held against counting by hand."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.console.actions import read_group_command
from streaming.console.effects import GroupCommand, after, of
from streaming.errors import ConfigError
from streaming.verify.current import Listed

MEMBERS = st.sets(st.sampled_from("ABCDE"), min_size=1)
GROUPS = st.dictionaries(st.sampled_from(["G0", "G1", "G2", "G3"]), MEMBERS, max_size=4)
COMMANDS = st.builds(
    GroupCommand,
    st.sampled_from(["add", "set", "join", "leave", "remove"]),
    st.sampled_from(["G0", "G1", "G9"]),
    st.sets(st.sampled_from("ABCDE"), max_size=3).map(lambda each: tuple(sorted(each))),
)


def pairs(groups):
    """Two groups with two members in common."""
    return {
        (one, other)
        for one, other in combinations(sorted(groups), 2)
        if len(set(groups[one]) & set(groups[other])) >= 2
    }


def done(groups, command):
    """The groups after a command; None where it is refused."""
    there = groups.get(command.group)
    given_members = set(command.members)
    if (there is None) != (command.op == "add"):
        return None
    if command.op == "remove":
        return {name: members for name, members in groups.items() if name != command.group}
    members = {
        "add": given_members,
        "set": given_members,
        "join": (there or set()) | given_members,
        "leave": (there or set()) - given_members,
    }[command.op]
    return {**groups, command.group: members} if members else None


@given(GROUPS, COMMANDS)
def test_the_effect_is_the_difference(groups, command):
    listed = {name: Listed(3, sorted(members)) for name, members in groups.items()}
    effect, then = of(listed, command), done(groups, command)
    assert bool(effect.refused) == (then is None)
    if then is None:
        return
    assert {name: set(each) for name, each in after(groups, command).items()} == then
    assert set(effect.begins) == pairs(then) - pairs(groups)
    assert set(effect.ends) == pairs(groups) - pairs(then)
    both = pairs(groups) & pairs(then)
    assert effect.goes_on == sum(command.group in pair for pair in both)
    before, now = groups.get(command.group, set()), then.get(command.group, set())
    assert (set(effect.joined), set(effect.left)) == (now - before, before - now)
    assert effect.version == (None if command.op == "add" else 3)


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"op": "drop", "group": "G"}, "no command"),
        ({"op": "add", "group": " "}, "name is missing"),
        ({"op": "join", "group": "G", "members": "A, B"}, "one member"),
        ({"op": "leave", "group": "G"}, "one member"),
    ],
)
def test_a_form_that_cannot_work_is_refused(form, said):
    with pytest.raises(ConfigError, match=said):
        read_group_command(form)


def test_a_form_is_read():
    form = {"op": "set", "group": " G0 ", "members": "B, A B", "if_version": "7"}
    assert read_group_command(form) == GroupCommand("set", "G0", ("B", "A"), 7)
