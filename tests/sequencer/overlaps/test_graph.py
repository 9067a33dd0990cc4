"""C1, C2 and C3 of built graphs, and graphs that break them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from sequencer.overlaps.graph import Graph, GraphError, build, check, require
from sequencer.overlaps.overlaps import ordered_overlaps
from tests.sequencer.overlaps.test_overlaps import RING, some_groups

AB, BC, CA = ("G0", "G1"), ("G1", "G2"), ("G0", "G2")


@pytest.mark.parametrize("seed", range(150))
def test_every_built_graph_satisfies_the_criteria(seed):
    groups = some_groups(seed, groups=12, members=8)
    graph = build(groups)
    assert check(graph, groups) == ()
    assert require(graph, groups) is graph
    assert graph == build(dict(reversed(groups.items())))
    for group in groups:
        own = {overlap.pair for overlap in ordered_overlaps(groups) if group in overlap.pair}
        assert set(graph.stamping(group)) == own
        if own:
            assert graph.paths[group][0] in own
            assert graph.paths[group][-1] in own


@pytest.mark.parametrize("seed", range(20))
def test_a_path_with_an_atom_left_out_is_always_seen(seed):
    groups = some_groups(seed, groups=8)
    graph = build(groups)
    for group, path in graph.paths.items():
        for pair in path:
            left = tuple(atom for atom in path if atom != pair)
            broken = replace(graph, paths={**graph.paths, group: left})
            violations = check(broken, groups)
            if group in pair:
                assert any(v.criterion == "C1" and v.atoms == (pair,) for v in violations)
            elif any(pair in path for name, path in graph.paths.items() if name != group):
                # A short cut past a transit atom is a loop where others take the long way.
                before, after = next(e for e in pairwise(left) if e not in graph.edges())
                long_way = graph.paths.items()
                if any({before, pair, after} <= set(p) for name, p in long_way if name != group):
                    assert any(v.criterion == "C2" for v in violations)


def test_the_three_criteria_by_name():
    atoms = {AB: frozenset("A"), BC: frozenset("B"), CA: frozenset("C")}
    good = {"G0": (AB, BC, CA), "G1": (AB, BC), "G2": (BC, CA)}
    assert check(Graph(atoms, good), RING) == ()

    def found(**paths):
        return [
            (v.criterion, v.groups, v.atoms) for v in check(Graph(atoms, {**good, **paths}), RING)
        ]

    assert found(G1=(AB,)) == [("C1", ("G1",), (BC,))]
    assert found(G1=(AB, BC, AB)) == [
        ("C1", ("G1",), (AB,)),
        ("C3", ("G0", "G1"), (AB, BC)),
    ]
    assert found(G0=(AB, CA)) == [("C2", ("G0", "G1", "G2"), (AB, CA, BC))]
    assert found(G0=(CA, AB)) == [("C2", ("G0", "G1", "G2"), (AB, CA, BC))]
    assert found(G1=(BC, AB)) == [("C3", ("G0", "G1"), (AB, BC))]
    missing = Graph(atoms, {"G0": (AB, BC, CA), "G1": (AB, BC)})
    assert next(iter(check(missing, RING))).what == "no path"
    gone = Graph({AB: frozenset("A"), CA: frozenset("C")}, good)
    assert {v.what for v in check(gone, RING)} == {"the path passes an atom that is not there"}


def test_require_refuses_and_tells_why():
    graph = build(RING)
    backwards = replace(graph, paths={**graph.paths, "G1": graph.paths["G1"][::-1]})
    with pytest.raises(GraphError, match="C3: an edge is taken in both directions") as refused:
        require(backwards, RING)
    assert refused.value.violations[0].criterion == "C3"


def test_a_chain_of_groups_needs_no_detours():
    groups = {
        f"G{n:02}": {f"s{n:02}", f"t{n:02}", f"s{n + 1:02}", f"t{n + 1:02}"} for n in range(30)
    }
    shuffled = {f"H{int(name[1:]) * 7 % 30:02}": members for name, members in groups.items()}
    paths = build(shuffled).paths
    assert max(map(len, paths.values())) == 2
