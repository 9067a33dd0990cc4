"""C1, C2 and C3 of built graphs, and graphs that break them."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise

import pytest

from sequencer.groups.network.graph import Graph, GraphError, build, check, require
from sequencer.groups.network.lines import Line, Run
from sequencer.groups.network.overlaps import ordered_overlaps
from tests.sequencer.groups.network.memberships import RING, some_groups

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


@pytest.mark.parametrize("seed", range(60))
def test_runs_of_a_line_and_lists_of_atoms_are_judged_alike(seed):
    rng = random.Random(seed)
    groups = some_groups(seed, groups=7)
    graph = build(groups)
    lines = graph.lines()
    paths = {}
    for group, path in graph.paths.items():
        if isinstance(path, Run) and rng.random() < 0.5:
            low, high = sorted(rng.choices(range(len(path.line.atoms) + 1), k=2))
            paths[group] = Run(path.line, low, high)
        else:
            paths[group] = path
    atoms = dict(graph.atoms)
    if atoms and rng.random() < 0.5:
        del atoms[rng.choice(sorted(atoms))]
    if lines and rng.random() < 0.5:
        some = rng.choice(lines)
        paths[rng.choice(sorted(groups))] = Line(some.atoms[::-1]).run(some.atoms[0][0])
    runs = Graph(atoms, paths)
    lists = Graph(atoms, {group: tuple(path) for group, path in paths.items()})
    assert check(runs, groups) == check(lists, groups)
    assert runs == lists
    assert runs.edges() == lists.edges()
    for group in groups:
        assert runs.stamping(group) == lists.stamping(group)


def test_a_loop_of_a_large_graph_is_found():
    names = [f"G{number:03}" for number in range(300)]
    atoms = {pair: frozenset("AB") for pair in pairwise(names)}
    round_about = (*atoms, next(iter(atoms)))
    loops = list(check(Graph(atoms, {"G": round_about[:-1], "H": round_about[-2:]}), {}))
    assert [v.criterion for v in loops] == ["C2"]
    assert len(loops[0].atoms) == len(atoms)
    assert loops[0].groups == ("G", "H")


def test_a_chain_of_groups_needs_no_detours():
    groups = {
        f"G{n:02}": {f"s{n:02}", f"t{n:02}", f"s{n + 1:02}", f"t{n + 1:02}"} for n in range(30)
    }
    shuffled = {f"H{int(name[1:]) * 7 % 30:02}": members for name, members in groups.items()}
    paths = build(shuffled).paths
    assert max(map(len, paths.values())) == 2
