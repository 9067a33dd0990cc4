"""The judge of `multicast` finds nothing in right histories, and every planted fault by name."""

import pytest

from streaming.verify.accounts import Settings
from streaming.verify.multicast import judge
from tests.streaming.verify.multicast_worlds import Multicasts, random_multicasts
from tests.streaming.verify.worlds import home, material_for, settings_for


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("order", ["clock", "counter"])
def test_right_histories_have_no_fault(seed, order):
    world = random_multicasts(seed, order=order, prefix="" if seed % 3 else "svc-")
    material = material_for(world)
    verdict = judge(settings_for(Settings, world), material)
    assert verdict.good, verdict.faults[:3]
    assert verdict.looked_at["deliveries"] == len(material.outputs)
    assert verdict.looked_at["held"] == verdict.looked_at["unanswered"] == 0


@pytest.mark.parametrize(
    ("sender", "reason", "faults"),
    [
        (b"", "refused", {}),
        (b"", "missing-sender", {"wrong-reason": 1}),
        (None, "missing-sender", {}),
        (None, "too-large", {"wrong-reason": 1}),
    ],
)
def test_a_sender_may_have_an_empty_name(sender, reason, faults):
    world = Multicasts(1)
    record = world.topics.put("in", 0, 1000, sender, b"v", [("to", b"p1")])
    world.reject(record, reason)
    verdict = judge(settings_for(Settings, world), material_for(world))
    assert verdict.counts == faults


@pytest.mark.parametrize(
    ("sender", "to", "handles", "right"),
    [
        (None, b"@n1", b"@n1", "missing-sender"),
        (b"p9", b"p1,,@n1", b"@n1", "bad-destination"),
        (b"p9", b"@n1", b"@n1,p1", "bad-destination"),
    ],
)
def test_the_first_reason_that_applies_counts(sender, to, handles, right):
    world = Multicasts(1)
    world.do({"op": "create-node", "node": "n1", "owner": "p2"})
    world.do({"op": "destroy-node", "node": "n1"})
    record = world.topics.put("in", 0, 1000, sender, b"w", [("to", to), ("handles", handles)])
    for reason in ("missing-sender", "bad-destination", "destroyed-node", "no-room"):
        world.topics.records.pop(("rejects", home(sender)), None)
        world.reject(record, reason)
        verdict = judge(settings_for(Settings, world), material_for(world))
        assert verdict.good is (reason == right), reason


@pytest.mark.parametrize(("handles", "faults"), [(b"p1", {}), (b"@n1", {"wrong-reason": 1})])
def test_a_peer_that_was_reached_is_no_handle(handles, faults):
    world = Multicasts(1)
    world.do({"op": "create-node", "node": "n1", "owner": "p2"})
    world.send(b"p9", b"p1,@n1", ..., b"v")
    record = world.topics.put("in", 0, 1000, b"p9", b"w", [("to", b"@n1"), ("handles", handles)])
    world.reject(record, "bad-destination")
    verdict = judge(settings_for(Settings, world), material_for(world))
    assert verdict.counts == faults
