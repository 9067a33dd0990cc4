"""The judge of `group` finds nothing in right histories, and every planted fault by its name."""

import pytest

from streaming.verify.group import Material, Settings, judge
from tests.streaming.verify.worlds import PARTITIONS, SUBSCRIBERS, random_groups


class Everything(dict):
    """All that there is has had its time."""

    def get(self, key, default=None):  # noqa: ARG002  (a dict's signature)
        return 2**62


def settings_of(world, **more):
    topics = {world.output.replace("{subscriber}", each) for each in (*SUBSCRIBERS, "ABCD")}
    fields = dict(
        pipeline="p",
        groups=world.configured,
        output=world.output,
        partitions=dict.fromkeys(topics, PARTITIONS),
        header_prefix=world.prefix,
        due=Everything(),
    )
    return Settings(**fields | more)


def material_of(world):
    topics = world.topics
    outputs = [t for t, _ in topics.records if t not in ("in", "rejects", "events", "commands")]
    return Material(
        topics.all(*outputs),
        topics.all("rejects"),
        topics.all("events"),
        topics.all("commands"),
        topics.all("in"),
    )


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("version_each", [False, True])
def test_right_histories_have_no_fault(seed, version_each):
    output = "out" if seed % 2 else "market.{subscriber}"
    prefix = "" if seed % 3 else "svc-"
    world = random_groups(seed, output=output, prefix=prefix, version_each=version_each)
    material = material_of(world)
    verdict = judge(settings_of(world, across_groups=True), material)
    assert verdict.good, verdict.faults[:3]
    assert verdict.looked_at["deliveries"] == len(material.outputs)
    assert verdict.looked_at["held"] == verdict.looked_at["unanswered"] == 0
