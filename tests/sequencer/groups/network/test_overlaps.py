"""Double overlaps and rings against naive models."""

from __future__ import annotations

import random
from itertools import combinations, permutations

import networkx as nx
import pytest

from sequencer.groups.network.overlaps import (
    Overlap,
    components,
    double_overlaps,
    ordered_overlaps,
    shared_overlaps,
)
from tests.sequencer.groups.network.memberships import RING, some_groups


def naive_overlaps(groups, at_least):
    return tuple(
        Overlap((first, second), frozenset(groups[first]) & frozenset(groups[second]))
        for first, second in combinations(sorted(groups), 2)
        if len(set(groups[first]) & set(groups[second])) >= at_least
    )


def naive_ring_pairs(groups):
    """Steps of rings in which each subscriber is in no group of the ring but its own two."""
    found = set()
    for size in range(2, len(groups) + 1):
        for ring in permutations(sorted(groups), size):
            steps = list(zip(ring, (*ring[1:], ring[0]), strict=True))
            chosen = [
                [
                    member
                    for member in set(groups[first]) & set(groups[second])
                    if sum(member in groups[name] for name in ring) == 2
                ]
                for first, second in steps
            ]
            if size == 2 and len(chosen[0]) < 2:
                continue
            if all(chosen):
                found.update(tuple(sorted(step)) for step in steps)
    return found


@pytest.mark.parametrize("seed", range(150))
def test_overlaps_are_those_of_a_plain_loop(seed):
    groups = some_groups(seed)
    assert shared_overlaps(groups) == naive_overlaps(groups, 1)
    assert double_overlaps(groups) == naive_overlaps(groups, 2)


@pytest.mark.parametrize("seed", range(150))
def test_no_step_of_a_ring_is_without_an_atom(seed):
    groups = some_groups(seed, groups=6)
    pairs = {overlap.pair for overlap in ordered_overlaps(groups)}
    assert naive_ring_pairs(groups) <= pairs
    assert {overlap.pair for overlap in double_overlaps(groups)} <= pairs


def test_single_overlaps_on_a_ring_need_atoms():
    assert double_overlaps(RING) == ()
    assert [overlap.pair for overlap in ordered_overlaps(RING)] == [
        ("G0", "G1"),
        ("G0", "G2"),
        ("G1", "G2"),
    ]


@pytest.mark.parametrize(
    "groups",
    [
        {},
        {"G0": set(), "G1": set()},
        {"G0": {"A"}, "G1": {"A"}, "G2": {"A"}},
        {"G0": {"A"}, "G1": {"A", "B"}, "G2": {"B", "C"}},
        {"G0": {"A", "C", "D"}, "G1": {"A", "B", "D"}, "G2": {"B", "C", "D"}, "G3": {"Z"}},
    ],
)
def test_single_overlaps_off_any_ring_need_none(groups):
    extra = set(ordered_overlaps(groups)) - set(double_overlaps(groups))
    assert not extra


def test_the_order_of_names_does_not_depend_on_the_order_of_the_input():
    groups = some_groups(5, groups=6)
    backwards = dict(reversed(groups.items()))
    assert ordered_overlaps(groups) == ordered_overlaps(backwards)
    assert components(groups) == components(backwards)


def test_components():
    assert components({}) == ()
    assert components({"B": {"x"}, "A": {"y"}, "C": {"x", "z"}, "D": set()}) == (
        ("A",),
        ("B", "C"),
        ("D",),
    )


def naive_rule(groups, overlap):
    """Whether the groups stay connected without a subscriber and without its other groups."""
    (member,) = overlap.members
    own = {name for name in groups if member in groups[name]}
    apart = nx.Graph()
    for name in groups:
        if name in overlap.pair or name not in own:
            apart.add_node(("group", name))
            others = set(groups[name]) - {member}
            apart.add_edges_from((("group", name), ("member", other)) for other in others)
    return nx.has_path(apart, *(("group", name) for name in overlap.pair))


@pytest.mark.parametrize("seed", range(200))
def test_single_overlaps_are_ordered_by_the_rule_and_no_other(seed):
    rng = random.Random(seed)
    members = [f"s{number}" for number in range(rng.randint(2, 25))]
    groups = {
        f"G{number}": rng.sample(members, rng.randint(1, min(4, len(members))))
        for number in range(rng.randint(1, 14))
    }
    ordered = set(ordered_overlaps(groups))
    for overlap in shared_overlaps(groups):
        expected = overlap.double or naive_rule(groups, overlap)
        assert (overlap in ordered) == expected, overlap
