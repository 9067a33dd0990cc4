"""How graph, nodes, stamps, load and latency grow with groups and subscribers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sequencer.simulation.counts import Track
from sequencer.simulation.load import busiest, stretches
from sequencer.simulation.plan import ground, plan
from sequencer.simulation.stamps import count
from sequencer.simulation.topology import Shape, transit_stub
from sequencer.simulation.workload import clustered_hosts, names, zipf_groups

SIZES = ((10, 100), (32, 320), (100, 1000), (320, 3200), (1000, 10_000))
RECEIVERS_MEASURED = 200


@dataclass(frozen=True, slots=True)
class Grown:
    """One run at one size, groups after Zipf.

    `hops`: nodes that a message passes, `collected` and `needed`: stamps (stamps.py), all means.
    `receiver`, `ordering`, `passing`, `total`: messages (load.py). `stretch`: the mean over some
    receivers, `stretch_most` the largest.
    """

    groups: int
    subscribers: int
    atoms: int
    nodes: int
    hops: float
    hops_most: int
    collected: float
    needed: float
    receiver: float
    ordering: float
    passing: float
    total: float
    stretch: float
    stretch_most: float


def figure(
    track: Track[tuple[int, int]],
    seed: int,
    *,
    sizes: Sequence[tuple[int, int]] = SIZES,
    shape: Shape | None = None,
) -> list[Grown]:
    """One run for each (number of groups, number of subscribers)."""
    topology = transit_stub(np.random.default_rng([seed, 1]), shape)
    rows = []
    for groups_count, subscribers in track(list(sizes)):
        rng = np.random.default_rng([seed, 6, groups_count, subscribers])
        members = names("H", subscribers)
        hosts = clustered_hosts(topology, rng, subscribers).tolist()
        measured = sorted(
            rng.choice(members, min(RECEIVERS_MEASURED, subscribers), replace=False).tolist()
        )
        where = ground(topology, dict(zip(members, hosts, strict=True)), measured)
        groups = zipf_groups(rng, members, groups_count)
        laid = plan(groups, where)
        collected, needed, _ = count(laid.graph, groups)
        most = busiest(groups, laid.graph, laid.nodes)
        stretch = stretches(groups, laid.paths, where, laid.site)
        hops = sum(len(groups[group]) * len(path) for group, path in laid.paths.items())
        rows.append(
            Grown(
                groups=groups_count,
                subscribers=subscribers,
                atoms=len(laid.graph.atoms),
                nodes=len(set(laid.nodes.values())),
                hops=hops / most.total,
                hops_most=max(map(len, laid.paths.values())),
                collected=collected,
                needed=needed,
                receiver=most.receiver,
                ordering=most.ordering,
                passing=most.passing,
                total=most.total,
                stretch=float(stretch.mean()),
                stretch_most=float(stretch.max()),
            )
        )
    return rows
