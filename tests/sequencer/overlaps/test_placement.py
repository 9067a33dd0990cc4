"""Nodes for atoms: the limit of load holds, and the checker sees when it does not."""

from __future__ import annotations

import random

import pytest

from sequencer.overlaps.graph import build
from sequencer.overlaps.placement import check_load, loads, node_path, place
from tests.sequencer.overlaps.test_overlaps import RING, some_groups


@pytest.mark.parametrize("seed", range(100))
def test_no_node_orders_more_than_the_busiest_receiver_gets(seed):
    rng = random.Random(seed)
    groups = some_groups(seed, groups=10, members=8)
    rates = {group: rng.choice([0, 0.1, 1, 5]) for group in groups}
    graph = build(groups)
    for some in (None, rates):
        nodes = place(graph, groups, some)
        assert set(nodes) == set(graph.atoms)
        assert sorted(set(nodes.values())) == list(range(len(set(nodes.values()))))
        assert check_load(graph, groups, nodes, some) == ()
        rate = some or dict.fromkeys(groups, 1)
        busiest = max(
            (sum(rate[g] for g in groups if name in groups[g]) for name in "ABCDEFGH"), default=0
        )
        for load in loads(graph, groups, nodes, some):
            names = {name for pair, node in nodes.items() if node == load.node for name in pair}
            assert load.ordering == pytest.approx(sum(rate[name] for name in names))
            assert load.ordering <= busiest + 1e-6
            assert load.passing >= load.ordering
    assert nodes == place(graph, dict(reversed(groups.items())), rates)


def test_an_overloaded_node_is_named_with_its_groups():
    graph = build(RING)
    one = dict.fromkeys(graph.atoms, 0)
    (overload,) = check_load(graph, RING, one)
    assert (overload.node, overload.load, overload.limit) == (0, 3, 2)
    assert overload.groups == ("G0", "G1", "G2")
    assert "busiest receiver, A" in str(overload)
    assert check_load(graph, RING, place(graph, RING)) == ()
    three = {pair: number for number, pair in enumerate(sorted(graph.atoms))}
    assert check_load(graph, RING, three) == ()


def test_equal_overlaps_and_subsets_share_a_node():
    groups = {"G0": "ABC", "G1": "ABC", "G2": "ABX", "G3": "ABY"}
    nodes = place(build(groups), groups)
    assert set(nodes.values()) == {0}


def test_full_groups_need_one_node():
    groups = {f"G{n}": "ABCDEF" for n in range(6)}
    graph = build(groups)
    nodes = place(graph, groups)
    assert set(nodes.values()) == {0}
    assert node_path(graph, nodes, "G0") == (0,)


def test_missing_rates_are_refused():
    with pytest.raises(ValueError, match="no rate of 0 or more for G1, G2"):
        place(build(RING), RING, {"G0": 1, "G1": float("nan")})
