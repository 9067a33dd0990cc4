"""Figure 1 of the paper, step by step: which sequencers serve which groups, by which paths."""

from __future__ import annotations

import random
from itertools import groupby

from sequencer.groups.network.graph import build, check
from sequencer.groups.network.membership import GroupIngress, GroupMessage, Views
from sequencer.groups.network.overlaps import double_overlaps, ordered_overlaps
from sequencer.groups.network.placement import check_load, place
from sequencer.simulation.figure1 import A, B, C, D, steps
from tests.sequencer.groups.network.network import Network

Q0, Q1, Q2 = "BC", "AB", "BD"


def served(groups):
    """Sequencer (atoms with one overlap) -> its groups; and group -> the sequencers of its path."""
    graph = build(groups)
    assert check(graph, groups) == ()
    assert check_load(graph, groups, place(graph, groups)) == ()
    overlap = {pair: "".join(sorted(members)) for pair, members in graph.atoms.items()}
    serves = {}
    for pair in graph.atoms:
        serves.setdefault(overlap[pair], set()).update(pair)
    paths = {
        group: [name for name, _ in groupby(overlap[pair] for pair in path)]
        for group, path in graph.paths.items()
    }
    return serves, paths


def either_way(path):
    return path, path[::-1]


def test_a_two_sequencers_for_three_groups():
    serves, paths = served(A)
    assert serves == {Q0: {"G0", "G1"}, Q1: {"G0", "G2"}}
    assert paths["G0"] in either_way([Q0, Q1])
    assert (paths["G1"], paths["G2"]) == ([Q0], [Q1])


def test_b_g3_is_redirected_through_q1():
    serves, paths = served(B)
    assert serves == {Q0: {"G0", "G1", "G3"}, Q1: {"G0", "G2"}, Q2: {"G2", "G3"}}
    assert paths["G3"] in either_way([Q0, Q1, Q2])
    assert paths["G0"] in either_way([Q0, Q1])
    assert paths["G2"] in either_way([Q1, Q2])
    assert paths["G1"] == [Q0]


def test_c_g4_needs_only_q2():
    serves, paths = served(C)
    assert serves[Q2] == {"G2", "G3", "G4"}
    assert paths["G4"] == [Q2]
    assert paths["G3"] in either_way([Q0, Q1, Q2])


def test_d_without_g0_no_q1():
    serves, paths = served(D)
    assert serves == {Q0: {"G1", "G3"}, Q2: {"G2", "G3", "G4"}}
    assert paths["G3"] in either_way([Q0, Q2])


def test_no_atom_beyond_the_papers_in_any_step():
    for groups in (A, B, C, D):
        assert ordered_overlaps(groups) == double_overlaps(groups)


def test_messages_in_every_step():
    for groups in (A, B, C, D):
        graph = build(groups)
        for seed in range(50):
            network = Network(graph, groups, random.Random(seed)).run(12)
            assert network.anomaly() is None


def test_the_steps_as_changes():
    views = Views()
    for group, members in A.items():
        views.add(group, members)
    assert views.views[views.latest].graph == build(A)
    assert views.add("G3", "BCD").graph == build(B)
    assert views.add("G4", "BD").graph == build(C)
    before = views.latest
    ingress = GroupIngress("G0")
    while ingress.switch(views) is not None:
        pass
    (message,) = ingress.publish(GroupMessage("G0", "A", "x"), views)
    assert views.remove("G0") == before == message.view
    (fin,) = ingress.switch(views)
    assert (fin.last, fin.view, fin.number) == (True, before, 1)
    assert views.latest == before
    assert views.set("G4", "BD").graph == build(D)


def test_one_node_is_enough_as_b_gets_every_message_anyway():
    for groups in (A, B, C, D):
        assert set(place(build(groups), groups).values()) == {0}


def test_what_is_drawn_is_what_the_graph_says():
    for step, groups in zip(steps(), (A, B, C, D), strict=True):
        serves, paths = served(groups)
        drawn = {"".join(sorted(each.members)): each for each in step.sequencers}
        assert {name: set(each.groups) for name, each in drawn.items()} == serves
        assert [each.name for each in drawn.values()] == sorted(
            {Q0: "Q0", Q1: "Q1", Q2: "Q2"}[name] for name in drawn
        )
        told = {each.name: "".join(sorted(each.members)) for each in step.sequencers}
        assert {g: [told[name] for name in path] for g, path in step.paths.items()} == paths
        for group in groups:
            own = [name for name in step.paths[group] if group in serves[told[name]]]
            assert list(step.numbering(group)) == own
    assert steps()[1].numbering("G3") == ("Q0", "Q2")
