"""Hosts in clusters, and who subscribes to what.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 4.1: clusters of similar
size, each somewhere in the topology, its hosts close together; sizes of groups after Zipf; and
section 4.4: every host in every group with the same probability, the *occupancy*.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sequencer.simulation.topology import Floats, Ints, Topology

Groups = dict[str, frozenset[str]]


def names(letter: str, count: int) -> list[str]:
    """`count` names that sort in the order of their numbers."""
    width = len(str(max(count - 1, 0)))
    return [f"{letter}{number:0{width}d}" for number in range(count)]


def clustered_hosts(
    topology: Topology, rng: np.random.Generator, count: int, cluster: int = 8
) -> Ints:
    """The router of each host; `cluster` hosts in a row are in one stub domain."""
    routers = np.empty(count, dtype=np.int64)
    for first in range(0, count, cluster):
        inside = np.flatnonzero(topology.stub == rng.integers(topology.stubs))
        routers[first : first + cluster] = rng.choice(inside, min(cluster, count - first))
    return routers


def zipf_sizes(groups: int, largest: int) -> list[int]:
    """Sizes of groups by rank: the largest, and so on down to 2 (a group of one has no order)."""
    smallest = min(2, largest)
    return [max(smallest, round(largest / rank)) for rank in range(1, groups + 1)]


def zipf_groups(rng: np.random.Generator, subscribers: list[str], groups: int) -> Groups:
    """Groups with sizes after Zipf, members drawn at random; the largest has all subscribers."""
    sizes = zipf_sizes(groups, len(subscribers))
    return {
        name: frozenset(subscribers[at] for at in rng.choice(len(subscribers), size, replace=False))
        for name, size in zip(names("G", groups), sizes, strict=True)
    }


def nearest_groups(rng: np.random.Generator, delays: Mapping[str, Floats], groups: int) -> Groups:
    """Groups with sizes after Zipf: the hosts nearest to one that is drawn, itself included.

    `delays`: host -> its delays to all hosts, in the order of their names.
    """
    hosts = sorted(delays)
    sizes = zipf_sizes(groups, len(hosts))
    drawn = {}
    for name, size in zip(names("G", groups), sizes, strict=True):
        centre = hosts[int(rng.integers(len(hosts)))]
        nearest = np.argsort(delays[centre], kind="stable")[:size]
        drawn[name] = frozenset(hosts[at] for at in nearest)
    return drawn


def occupied_groups(
    rng: np.random.Generator, subscribers: list[str], groups: int, occupancy: float
) -> Groups:
    """Groups in which every subscriber is with the probability `occupancy`; empty ones are kept."""
    drawn = rng.random((groups, len(subscribers))) < occupancy
    return {
        name: frozenset(subscribers[at] for at in np.flatnonzero(row))
        for name, row in zip(names("G", groups), drawn, strict=True)
    }


def rates(groups: Groups) -> dict[str, float]:
    """Messages of each group when every member sends one, as the paper measures (section 4.2)."""
    return {name: float(len(members)) for name, members in groups.items()}
