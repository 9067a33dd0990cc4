"""What drivers know of causes is judged, too: nobody may get an effect before its cause."""

import pytest

from streaming.verify import group, multicast
from streaming.verify.accounts import Settings
from tests.streaming.verify.group_worlds import Groups
from tests.streaming.verify.multicast_worlds import Multicasts
from tests.streaming.verify.plants import Lists, swap
from tests.streaming.verify.worlds import material_for, settings_for


def relay():
    """A sends to B and C; B has read it and answers to C; C gets the answer first or last."""
    world = Groups(1, {"G0": ["B", "C"], "G1": ["C", "D"]})
    world.send(b"A", b"G0", b"question")
    world.send(b"B", b"G1", b"answer", 1)
    return world


def places(world):
    question, answer = world.topics.all("in")
    return question.place, answer.place


def test_an_effect_after_its_cause_is_right():
    world = relay()
    settings = settings_for(group.GroupSettings, world, groups=world.configured)
    assert group.judge(settings, material_for(world), [places(world)]).good


def test_an_effect_before_its_cause_is_found():
    world = relay()
    settings = settings_for(group.GroupSettings, world, groups=world.configured)
    question, answer = places(world)
    verdict = group.judge(settings, material_for(world), [(answer, question)])
    assert verdict.counts == {"causality": 1}
    told = verdict.faults[0].witness
    assert told.startswith("C got G0")
    assert "before G1" in told
    assert "happened before" in told


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_multicasts_have_causes(order):
    world = Multicasts(1, order=order)
    world.send(b"A", b"B,C", ..., b"question")
    world.send(b"B", b"C", ..., b"answer", 1)
    settings = settings_for(Settings, world)
    question, answer = places(world)
    assert multicast.judge(settings, material_for(world), [(question, answer)]).good
    verdict = multicast.judge(settings, material_for(world), [(answer, question)])
    assert verdict.counts == {"causality": 1}


def test_causes_of_nothing_are_passed_over():
    world = relay()
    settings = settings_for(group.GroupSettings, world, groups=world.configured)
    nothing = ("in", 9, 9)
    assert group.judge(settings, material_for(world), [(nothing, nothing)]).good


def test_causes_that_cause_themselves_are_told():
    world = relay()
    settings = settings_for(group.GroupSettings, world, groups=world.configured)
    question, answer = places(world)
    causes = [(question, answer), (answer, question)]
    assert group.judge(settings, material_for(world), causes).counts == {"bad-cause": 1}


def named(record):
    """A delivery as senders name it."""
    return [("after", b"%s/%d@%d" % (record.topic.encode(), record.partition, record.offset))]


def got(world, key, value):
    (found,) = [r for r in world.topics.all("out") if (r.key, r.value) == (key, value)]
    return found


def turned(world):
    """C gets the answer first."""
    lists = Lists.of(material_for(world))
    swap(lists.outputs, *lists.of_key(b"C"))
    return lists.material()


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_inputs_name_the_deliveries_that_were_read(order):
    world = Multicasts(1, order=order)
    world.send(b"A", b"B,C", ..., b"question")
    heard = named(got(world, b"B", b"question"))
    world.send(b"D", b"C", ..., b"answer", 1, heard)
    settings = settings_for(Settings, world, cause_header="after")
    assert multicast.judge(settings, material_for(world)).counts == {}
    swapped = turned(world)
    assert multicast.judge(settings, swapped).counts["causality"] == 1
    assert "causality" not in multicast.judge(settings_for(Settings, world), swapped).counts


def test_members_name_the_deliveries_that_were_read():
    world = Groups(1, {"G0": ["B", "C"], "G1": ["C", "D"]})
    world.send(b"A", b"G0", b"question")
    heard = named(got(world, b"B", b"question"))
    world.send(b"B", b"G1", b"answer", 1, heard)
    settings = settings_for(
        group.GroupSettings, world, groups=world.configured, cause_header="after"
    )
    assert group.judge(settings, material_for(world)).counts == {}
    assert group.judge(settings, turned(world)).counts["causality"] == 1


@pytest.mark.parametrize("value", [b"", b"nonsense", b"out/0@999", b"out/9@0", b"out/0@0,"])
def test_a_cause_that_is_no_delivery_is_told(value):
    world = Multicasts(1)
    world.send(b"A", b"B", ..., b"question")
    world.send(b"B", b"C", ..., b"answer", 1, [("after", value)])
    settings = settings_for(Settings, world, cause_header="after")
    assert set(multicast.judge(settings, material_for(world)).counts) == {"bad-cause"}
