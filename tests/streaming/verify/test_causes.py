"""What drivers know of causes is judged, too: nobody may get an effect before its cause."""

import pytest

from streaming.verify import group, multicast
from streaming.verify.accounts import Settings
from tests.streaming.verify.worlds import Groups, Multicasts, material_for, settings_for


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
    settings = settings_for(group.Settings, world, groups=world.configured)
    assert group.judge(settings, material_for(world), [places(world)]).good


def test_an_effect_before_its_cause_is_found():
    world = relay()
    settings = settings_for(group.Settings, world, groups=world.configured)
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
    settings = settings_for(group.Settings, world, groups=world.configured)
    nothing = ("in", 9, 9)
    assert group.judge(settings, material_for(world), [(nothing, nothing)]).good


def test_causes_that_cause_themselves_are_refused():
    world = relay()
    settings = settings_for(group.Settings, world, groups=world.configured)
    question, answer = places(world)
    with pytest.raises(ValueError, match="form a cycle"):
        group.judge(settings, material_for(world), [(question, answer), (answer, question)])
