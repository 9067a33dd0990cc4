"""Sites for nodes: as good as the best of all on small cases, and never two in one place."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from sequencer.groups.network.nearness import Sites, near

MEMBERS = "ABCDE"


def case(seed):
    rng = random.Random(seed)
    points = np.random.default_rng(seed).uniform(0, 100, (6 + len(MEMBERS), 2))
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    away = {name: apart[6 + at, :6] for at, name in enumerate(MEMBERS)}
    members = {f"G{at}": rng.sample(MEMBERS, rng.randint(1, 5)) for at in range(4)}
    paths = {group: tuple(range(*sorted(rng.sample(range(4), 2)))) for group in members}
    return paths, members, Sites(apart[:6, :6], away)


def total(paths, members, sites, site, urgency):
    """The definition: the delay of every delivery, one by one."""
    found = 0.0
    for group, path in paths.items():
        steps = [site[node] for node in path]
        way = sum(sites.apart[one, two] for one, two in itertools.pairwise(steps))
        for sender in members[group]:
            for receiver in members[group]:
                ends = sites.away[sender][steps[0]] + sites.away[receiver][steps[-1]]
                found += urgency[receiver] * (ends + way)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_it_is_nearly_the_best_of_all(seed):
    paths, members, sites = case(seed)
    urgency = {name: 1 + at / 2 for at, name in enumerate(MEMBERS)}
    site = near(paths, members, sites, urgency)
    nodes = sorted({node for path in paths.values() for node in path})
    assert sorted(site) == nodes
    assert len(set(site.values())) == len(nodes)
    best = min(
        total(paths, members, sites, dict(zip(nodes, chosen, strict=True)), urgency)
        for chosen in itertools.permutations(range(6), len(nodes))
    )
    assert total(paths, members, sites, site, urgency) <= best * 1.1
    assert near(paths, members, sites, urgency) == site


def test_one_node_goes_to_the_middle_of_its_own():
    sites = Sites(np.array([[0.0, 4], [4, 0]]), {"A": np.array([1.0, 5]), "B": np.array([2.0, 3])})
    assert near({"G": (7,)}, {"G": "AB"}, sites) == {7: 0}
    assert near({"G": (7,)}, {"G": "AB"}, sites, {"A": 1, "B": 100}) == {7: 0}
    assert near({"G": (7,)}, {"G": "B"}, sites) == {7: 0}


def test_nothing_to_place():
    assert near({}, {}, Sites(np.zeros((0, 0)), {})) == {}


def test_more_nodes_than_sites_are_refused():
    sites = Sites(np.zeros((2, 2)), {"A": np.zeros(2)})
    paths, members = {"G": (0, 1, 2)}, {"G": "A"}
    with pytest.raises(ValueError, match="3 nodes do not fit on 2 sites"):
        near(paths, members, sites)
    assert sorted(near(paths, members, sites, nodes_per_site=2)) == [0, 1, 2]
