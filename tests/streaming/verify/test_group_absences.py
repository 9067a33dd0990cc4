"""Rejects that say that a group is not there, among messages of that group."""

from dataclasses import replace

import pytest

from streaming.verify.group import GroupSettings, judge
from tests.streaming.verify.group_worlds import Groups
from tests.streaming.verify.plants import Lists, drop
from tests.streaming.verify.worlds import material_for, settings_for

ADD = {"op": "add", "group": "G1", "members": ["A", "B"]}
REMOVE = {"op": "remove", "group": "G1"}


def reject_one(m, value, reason):
    """A message that was delivered is a reject instead."""
    record = next(each for each in m.inputs if each.value == value)
    for at in reversed([n for n, each in enumerate(m.outputs) if each.value == value]):
        drop(m.outputs, at)
    names = ("reason", "topic", "partition", "offset")
    values = (reason, b"in", b"%d" % record.partition, b"%d" % record.offset)
    added = tuple((f"reject-{name}", value) for name, value in zip(names, values, strict=True))
    headers = record.headers + added
    m.rejects.append(replace(record, topic="rejects", offset=99, headers=headers))


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("lost", [None, b"1", b"2"])
def test_a_message_between_others_of_its_group_is_not_rejected(removed, lost):
    world = Groups(1, {"G0": ["A", "C"]}, version_each=True)
    world.do({**ADD, "id": "c1"})
    for value in (b"0", b"1", b"2"):
        world.send(b"p", b"G1", value)
    if removed:
        world.do({**REMOVE, "id": "c2"})
        world.send(b"p", b"G1", b"3")
    m = Lists.of(material_for(world))
    if lost is not None:
        reject_one(m, lost, b"removed-group" if removed else b"unknown-group")
    verdict = judge(settings_for(GroupSettings, world, groups=world.configured), m.material())
    # The last message may have come behind the removal.
    is_wrong = lost == b"1" or (lost == b"2" and not removed)
    assert set(verdict.counts) == ({"wrong-reason"} if is_wrong else set()), verdict.faults
