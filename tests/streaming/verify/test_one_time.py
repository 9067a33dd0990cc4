"""Several batches with one time, as after a clock was set back: who was first, by the answers."""

import json
from dataclasses import replace

import pytest

from streaming.verify.commands import DONE, Command, Event, by_subject
from streaming.verify.faults import Verdict
from streaming.verify.group import GroupSettings, judge
from streaming.verify.nodes import replay
from tests.streaming.verify.group_worlds import Groups
from tests.streaming.verify.worlds import home, material_for, settings_for

ADD = {"op": "add", "group": "G9", "members": ["A", "B"]}
GONE = {"op": "remove", "group": "G9"}


def faults_of(story, altered=list):
    """The faults of commands in one time; ``altered``: their events, as they were changed."""
    groups = {"G0": ["A", "B"]}
    world = Groups(1, groups)
    for command, partition in story:
        world.do(command, partition)
    there = world.topics.records["events", home(b"G9")]
    told = [json.loads(event.value) for event in there]
    there[:] = [
        replace(event, value=json.dumps(fields).encode())
        for event, fields in zip(there, altered(told), strict=True)
    ]
    named = {name: frozenset(members) for name, members in groups.items()}
    verdict = judge(settings_for(GroupSettings, world, groups=named), material_for(world))
    return {fault.name for fault in verdict.faults}


STORY = [(ADD, 1), (GONE, 0), (ADD, 0), (GONE, 1), (ADD, 1)]


@pytest.mark.parametrize("story", [STORY, [(GONE, 2), (ADD, 1), (ADD, 0), (GONE, 0), (GONE, 1)]])
def test_the_order_of_the_answers_is_that_of_the_commands(story):
    assert not faults_of(story)


def with_the_last_refused(told):
    return [*told[:-1], told[-1] | {"event": "command-refused", "reason": "group-exists"}]


def backwards(told):
    """No partition's commands can have been done in this order, so it is not believed."""
    return told[::-1]


@pytest.mark.parametrize("altered", [with_the_last_refused, backwards])
def test_what_is_wrong_is_found_all_the_same(altered):
    assert faults_of(STORY, altered)


@pytest.mark.parametrize(("created", "wrong"), [("00", []), ("01", ["wrong-answer"])])
def test_a_release_may_be_answered_before_the_creation_of_its_batch(created, wrong):
    """Another shard answers it, and state partitions commit each for itself."""

    def command(topic, op, at, offset):
        event = Event("events/0", b"", DONE, {"at": at}, ("events", 0, offset))
        return Command(
            "", (topic, 0, 0), None, op, "n", ("A",), 0, None, topic == "in", b"A", {}, [event]
        )

    commands = [command("commands", "create-node", created, 1), command("in", "release", "00", 0)]
    verdict = Verdict("p")
    replay(verdict, by_subject(commands), 1_000)
    assert [fault.name for fault in verdict.faults] == wrong
