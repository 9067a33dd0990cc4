"""Nodes for atoms: the limit of load holds, and the checker sees when it does not."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import mean, median

import pytest

from sequencer.groups.network.graph import build, check
from sequencer.groups.network.overlaps import double_overlaps
from sequencer.groups.network.placement import check_load, loads, node_path, node_paths, place
from tests.seeds import seeds
from tests.sequencer.groups.network.memberships import RING, clustered, occupied, some_groups, zipf


@pytest.mark.parametrize("seed", seeds(50, 100))
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


@pytest.mark.parametrize("seed", seeds(30, 60))
@pytest.mark.parametrize("nodes_max", [None, 1, 2, 3, 5])
def test_no_message_comes_to_a_node_twice(seed, nodes_max):
    rng = random.Random(seed)
    groups = some_groups(seed, groups=12, members=8)
    rates = {group: rng.choice([0, 0.1, 1, 5]) for group in groups}
    graph = build(groups, rates, nodes_max=nodes_max)
    assert check(graph, groups) == ()
    assert graph == build(dict(reversed(groups.items())), rates, nodes_max=nodes_max)
    # Whatever the graph was built for, it can be placed otherwise.
    for some in (graph, build(groups)):
        nodes = place(some, groups, rates, nodes_max=nodes_max)
        used = sorted(set(nodes.values()))
        assert used == list(range(len(used)))
        assert nodes_max is None or len(used) <= nodes_max
        assert nodes_max is not None or check_load(some, groups, nodes, rates) == ()
        paths = {group: node_path(some, nodes, group) for group in groups}
        assert paths == node_paths(some, nodes)
        for path in paths.values():
            assert len(set(path)) == len(path)


def test_the_limit_is_kept_with_as_many_nodes_as_it_takes_and_the_rest_is_told():
    groups = zipf(32, 128, 1)
    free = place(build(groups), groups)
    enough = len(set(free.values()))
    graph = build(groups, nodes_max=enough)
    assert check_load(graph, groups, place(graph, groups, nodes_max=enough)) == ()
    graph = build(groups, nodes_max=4)
    nodes = place(graph, groups, nodes_max=4)
    overloads = check_load(graph, groups, nodes)
    assert overloads
    limit = max(sum(name in members for members in groups.values()) for name in groups["G0001"])
    over = {load.node for load in loads(graph, groups, nodes) if load.ordering > limit}
    assert {overload.node for overload in overloads} == over
    # Spread: one node alone would order the messages of all 32 groups.
    assert max(overload.load for overload in overloads) <= 26


@pytest.mark.parametrize("nodes_max", [0, -1])
def test_no_nodes_are_refused(nodes_max):
    for refused in (
        lambda: build(RING, nodes_max=nodes_max),
        lambda: place(build(RING), RING, nodes_max=nodes_max),
    ):
        with pytest.raises(ValueError, match="give 1 or more"):
            refused()


def test_atoms_of_any_graph_are_placed_along_its_paths():
    groups = zipf(12, 40, 3)
    built = build(groups)
    listed = replace(built, paths={group: tuple(path) for group, path in built.paths.items()})
    nodes = place(listed, groups)
    assert check_load(listed, groups, nodes) == ()
    assert set(nodes) == set(built.atoms)
    for path in node_paths(listed, nodes).values():
        assert list(path) == sorted(set(path))
    round_about = replace(listed, paths={**listed.paths, "G": listed.paths["G0001"][::-1]})
    with pytest.raises(ValueError, match="see check"):
        place(round_about, groups)


def figures(groups, nodes_max=None, overlaps=None):
    graph = build(groups, nodes_max=nodes_max, overlaps=overlaps)
    assert check(graph, groups, overlaps) == ()
    nodes = place(graph, groups, nodes_max=nodes_max)
    passed = [max(0, len(path) - 1) for path in node_paths(graph, nodes).values()]
    return len(set(nodes.values())), mean(passed), median(passed)


def test_few_hops_on_four_nodes():
    found = [figures(zipf(32, 128, seed), nodes_max=4) for seed in range(6)]
    assert median(middle for _, _, middle in found) <= 1
    assert mean(passed for _, passed, _ in found) < 1.7


def papers(groups):
    """Nodes for double overlaps alone, as in the paper's figures, and for all that need an atom."""
    return figures(groups, overlaps=double_overlaps(groups))[0], figures(groups)[0]


def test_nodes_by_groups():
    """Figure 3 of the paper: beyond twenty or so groups the nodes grow more gradually."""
    found = {
        count: [papers(zipf(count, 128, seed)) for seed in range(4)] for count in (4, 20, 40, 64)
    }
    double = {count: mean(nodes for nodes, _ in some) for count, some in found.items()}
    assert (double[64] - double[20]) / 44 < 0.6 * (double[20] - double[4]) / 16
    # With atoms for single overlaps on rings too, there is no more than a node for two groups.
    assert mean(nodes for _, nodes in found[64]) < 32


def test_nodes_by_occupancy():
    """Figure 4 of the paper: a peak near 0.15, one node if nearly everyone is everywhere."""
    shares = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.95)
    found = {
        share: [papers(occupied(32, 128, share, seed)) for seed in range(4)] for share in shares
    }
    double, ordered = ({s: mean(n[at] for n in some) for s, some in found.items()} for at in (0, 1))
    assert 0.1 <= max(double, key=double.get) <= 0.2
    assert 0.05 <= max(ordered, key=ordered.get) <= 0.15
    for nodes in (double, ordered):
        assert nodes[0.02] < nodes[0.15] / 2
        assert nodes[0.15] > 2 * nodes[0.3] > 2 * nodes[0.5] > nodes[0.95]
        assert nodes[0.95] == 1


def whole(groups, nodes_max):
    graph = build(groups, nodes_max=nodes_max)
    nodes = place(graph, groups, nodes_max=nodes_max)
    assert check(graph, groups) == ()
    if nodes_max is None:
        assert check_load(graph, groups, nodes) == ()
    for path in node_paths(graph, nodes).values():
        assert len(set(path)) == len(path)
    return len(graph.atoms)


@pytest.mark.parametrize("nodes_max", [pytest.param(None, marks=pytest.mark.slow), 8])
def test_a_hundred_groups_of_a_thousand_subscribers(nodes_max):
    assert whole(zipf(100, 1_000, 1), nodes_max) > 2_000
    assert whole(clustered(100, 1_000, 1), nodes_max) > 1_000


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("nodes_max", [None, 8])
def test_a_thousand_groups_of_ten_thousand_subscribers(nodes_max):
    assert whole(zipf(1_000, 10_000, 1), nodes_max) > 50_000
    assert whole(clustered(1_000, 10_000, 1), nodes_max) > 15_000
