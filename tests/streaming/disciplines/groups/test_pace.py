"""How much a batch of groups reads: what it delivers has to fit into memory."""

from types import SimpleNamespace

import pytest

from streaming.arrow.totals import expected_in
from streaming.config.tables import Service
from streaming.disciplines.groups import GROUP
from streaming.service.query import Progress
from streaming.service.speed import Speed
from tests.streaming.disciplines.groups.networks import floor_for
from tests.streaming.verify.group_worlds import Groups, random_groups


@pytest.mark.parametrize("sequencing", ["batch", "network"])
def test_a_batch_has_fewer_records_where_groups_are_large(sequencing):
    groups = {"G0": [f"m{n}" for n in range(10_000)], "G1": ["m0", "m1"]}
    pace = GROUP.pace(SimpleNamespace(groups=groups, sequencing=sequencing))
    limits = Speed(pace).limits(Service(), Progress(last_records=10**6, last_seconds=1.0))
    assert limits.records_now() == 199


def test_what_records_come_to_is_known_before_it_is_delivered():
    for seed in range(6):
        floor = floor_for(random_groups(seed, commands=0.1), seed, shards=4, nodes=4)
        floor.run()
        assert expected_in(floor.news)[1] == floor.totals().delivered


def test_a_large_group_that_a_command_added_is_known_after_its_first_messages():
    """Also while they are still on their way."""
    world = Groups(1, {"G0": ["A", "B"]})
    world.do({"op": "add", "group": "big", "members": [f"m{n}" for n in range(2_000)]})
    for n in range(10):
        world.send(b"p", b"big", b"%d" % n)
    floor = floor_for(world, 1, shards=4, nodes=4)
    floor.batch(whole=True)
    progress = Progress(shards=dict(enumerate(floor.news)))
    assert progress.counts()[1] < 20_000, "not all of them are delivered"
    progress.measure((0, 0), 0.1, expected_in(floor.news))
    pace = GROUP.pace(SimpleNamespace(groups=world.configured, sequencing="network"))
    assert Speed(pace).limits(Service(), progress).records_now() == 500
