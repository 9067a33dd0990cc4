"""Rejects that say that a group is not there, among messages of that group."""

import random
import tracemalloc
from dataclasses import replace

import pytest

from streaming.verify.columns import Column
from streaming.verify.faults import Verdict
from streaming.verify.group import GroupSettings, judge
from streaming.verify.group_places import judge_absences
from streaming.verify.inputs import Inputs
from streaming.verify.logs import Names, Values
from streaming.verify.memberships import Group
from streaming.verify.records import Record
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


def story(count, rejected, versions, partitions=1):
    """Inputs to one group; each that is not ``rejected`` became a message of its version."""
    records = [
        Record("in", n % partitions, n // partitions, 1, b"p", b"", (("group", b"G"),))
        for n in range(count)
    ]
    names: Names[tuple[bytes, int, int]] = Names(Values(), Column(), Column())
    of = Column()
    for n in range(count):
        if n not in rejected:
            names.append((b"G", versions[n], n))
            of.append(n)
    return Inputs(records, ("group",)), names, of


@pytest.mark.parametrize("seed", range(20))
def test_the_nearest_messages_of_the_partition_count(seed):
    rng = random.Random(seed)
    count, partitions, group = 40, rng.choice([1, 2]), Group(removed=["c1"])
    versions = sorted(rng.randrange(4) for _ in range(count))
    rejected = rng.sample(range(count), rng.choice([1, 5, 30]))
    inputs, names, of = story(count, rejected, versions, partitions)
    verdict = Verdict("p")
    judge_absences(verdict, {b"G": group}, names, inputs, of, rejected)
    wrong = 0
    for one in rejected:
        near = [n for n in range(one % partitions, count, partitions) if n not in rejected]
        before, after = [n for n in near if n < one][-1:], [n for n in near if n > one][:1]
        wrong += bool(before and after) and versions[before[0]] == versions[after[0]]
    assert verdict.counts.get("wrong-reason", 0) == wrong


def test_messages_around_a_reject_take_no_memory():
    inputs, names, of = story(20_000, {7}, [1] * 20_000)
    verdict = Verdict("p")
    tracemalloc.start()
    judge_absences(verdict, {}, names, inputs, of, [7])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert verdict.counts == {"wrong-reason": 1}
    assert peak < 500_000, peak
