"""The judge of `group` finds nothing in right histories, and every planted fault by its name."""

import pytest

from streaming.verify.group import GroupSettings, judge
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.worlds import material_for, settings_for


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("version_each", [False, True])
def test_right_histories_have_no_fault(seed, version_each):
    output = "out" if seed % 2 else "market.{subscriber}"
    prefix = "" if seed % 3 else "svc-"
    world = random_groups(seed, output=output, prefix=prefix, version_each=version_each)
    material = material_for(world)
    settings = settings_for(GroupSettings, world, groups=world.configured, across_groups=True)
    verdict = judge(settings, material)
    assert verdict.good, verdict.faults[:3]
    assert verdict.looked_at["deliveries"] == len(material.outputs)
    assert verdict.looked_at["held"] == verdict.looked_at["unanswered"] == 0
