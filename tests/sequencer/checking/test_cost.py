"""A message costs O(n log m): counted for growing n and m, as the page's table shows it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sequencer.checking.cost import cost, growth
from sequencer.multicast.protocol.bus import ClockBus, CounterBus

BUSES = [ClockBus, CounterBus]


@pytest.mark.parametrize("bus_type", BUSES)
def test_linear_in_the_destinations(bus_type):
    two, four, forty = (cost(bus_type, count, 100).compared for count in (2, 4, 40))
    each = (four - two) / 2
    assert forty == pytest.approx(two + 38 * each)
    assert each > 10


@pytest.mark.parametrize("bus_type", BUSES)
def test_logarithmic_in_the_length(bus_type):
    """Each doubling adds the same; a queue kept as a plain list would double the cost."""
    found = [cost(bus_type, 3, 2**power).compared for power in range(4, 12)]
    steps = [later - earlier for earlier, later in pairwise(found)]
    assert max(steps) <= min(steps) + 3
    assert found[-1] < 4 * found[0]


def test_a_unicast_needs_no_block_and_costs_less():
    alone, both = (cost(ClockBus, count, 256) for count in (1, 2))
    assert (alone.steps, both.steps) == (3, 8)
    assert alone.compared < both.compared / 2


def test_the_table_has_both_orders_and_both_directions():
    found = growth(destinations=(1, 2), lengths=(4, 8, 16))
    assert [(each.order, each.destinations, each.length) for each in found] == [
        *(("clock", at, 256) for at in (1, 2)),
        *(("counter", at, 256) for at in (1, 2)),
        *(("clock", 8, at) for at in (4, 8, 16)),
        *(("counter", 8, at) for at in (4, 8, 16)),
    ]
