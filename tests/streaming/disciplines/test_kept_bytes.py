"""Shards that send each other messages say how many bytes of records their states have."""

import pytest

from tests.streaming.disciplines.multicast.floors import floor_for, world_of

VALUE = bytes(10_000)


@pytest.mark.parametrize("order", ["clock", "counter"])
def test_multicasts_that_are_on_their_way_count(order):
    world = world_of(order)
    world.send(b"p", b"a,b,c", ..., VALUE)
    floor = floor_for(world, 1)
    floor.batch(whole=True)
    assert max(each.kept_bytes for each in floor.news) >= len(VALUE)
    states = [state.totals for state in floor.states.values()]
    floor.run(whole=True)
    states += [state.totals for state in floor.states.values()]
    assert not any("kept_bytes" in each for each in states), "earlier versions do not know it"
    assert len(floor.topics.all("out")) == 3
