"""Topologies and workloads: sizes, connection, clusters, the same for equal seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from sequencer.simulation.topology import LINE_MS_MIN, SMALL, Shape, transit_stub
from sequencer.simulation.workload import (
    clustered_hosts,
    names,
    occupied_groups,
    rates,
    zipf_groups,
    zipf_sizes,
)


def made(seed=1, shape=SMALL):
    return transit_stub(np.random.default_rng(seed), shape)


def test_the_default_has_ten_thousand_routers():
    assert Shape().routers == 10_000
    topology = made(shape=None)
    assert topology.routers == 10_000
    assert connected_components(topology.lines, directed=False)[0] == 1
    assert topology.stubs == 300


@pytest.mark.parametrize("seed", range(10))
def test_it_is_connected_and_a_stub_has_one_gateway(seed):
    topology = made(seed)
    assert topology.routers == SMALL.routers == len(topology.domain)
    assert connected_components(topology.lines, directed=False)[0] == 1
    assert (abs(topology.lines - topology.lines.T) > 0).nnz == 0
    assert topology.lines.data.min() >= LINE_MS_MIN
    first, second = topology.lines.nonzero()
    leaving = topology.stub[first] != topology.stub[second]
    for stub in range(topology.stubs):
        out = leaving & (topology.stub[first] == stub)
        assert out.sum() == 1
        assert topology.stub[second[out]] == -1
        assert topology.domain[first[out]] == topology.domain[second[out]]


def test_equal_seeds_give_equal_topologies():
    assert (made(3).lines != made(3).lines).nnz == 0
    assert (made(3).lines != made(4).lines).nnz > 0


def test_delays_are_those_of_shortest_paths():
    topology = made()
    delays = topology.delays(np.arange(topology.routers))
    assert np.allclose(delays, delays.T)
    assert (np.diag(delays) == 0).all()
    for middle in range(0, topology.routers, 17):
        assert (delays <= delays[:, [middle]] + delays[[middle]] + 1e-9).all()


def test_clusters_are_close_together():
    topology = transit_stub(np.random.default_rng(1), Shape(4, 4, 2, 10))
    hosts = clustered_hosts(topology, np.random.default_rng(2), 30, 8)
    assert len(hosts) == 30
    for first in range(0, 30, 8):
        assert len(set(topology.stub[hosts[first : first + 8]])) == 1
    assert len(set(topology.stub[hosts])) > 1


def test_sizes_after_zipf():
    assert zipf_sizes(5, 100) == [100, 50, 33, 25, 20]
    assert zipf_sizes(100, 20)[-1] == 2
    assert zipf_sizes(2, 1) == [1, 1]


def test_groups_have_their_sizes_and_rates():
    groups = zipf_groups(np.random.default_rng(1), names("H", 128), 8)
    assert [len(members) for members in groups.values()] == zipf_sizes(8, 128)
    assert rates(groups) == {name: len(members) for name, members in groups.items()}


def test_occupancy_is_a_probability():
    rng, members = np.random.default_rng(1), names("H", 128)
    assert not any(occupied_groups(rng, members, 32, 0).values())
    assert all(len(some) == 128 for some in occupied_groups(rng, members, 32, 1).values())
    mean = np.mean([len(some) for some in occupied_groups(rng, members, 200, 0.3).values()])
    assert abs(mean - 0.3 * 128) < 2


def test_names_sort_as_numbers():
    assert names("G", 11) == sorted(names("G", 11))
    assert names("G", 1) == ["G0"]
