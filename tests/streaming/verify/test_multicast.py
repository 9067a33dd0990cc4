"""The judge of `multicast` finds nothing in right histories, and every planted fault by name."""

import pytest

from streaming.verify.accounts import Settings
from streaming.verify.multicast import judge
from tests.streaming.verify.multicast_worlds import random_multicasts
from tests.streaming.verify.worlds import material_for, settings_for


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("order", ["clock", "counter"])
def test_right_histories_have_no_fault(seed, order):
    world = random_multicasts(seed, order=order, prefix="" if seed % 3 else "svc-")
    material = material_for(world)
    verdict = judge(settings_for(Settings, world), material)
    assert verdict.good, verdict.faults[:3]
    assert verdict.looked_at["deliveries"] == len(material.outputs)
    assert verdict.looked_at["held"] == verdict.looked_at["unanswered"] == 0
