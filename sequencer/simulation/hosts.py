"""Fewer hosts, and groups of neighbours: what both do to nodes, load and latency.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 4.1, varies the hosts
between 32 and 128 and the groups between 8 and 32, and leaves groups that are "geographically-
correlated" to the future (section 5). Every member sends one message to each of its groups. Delays
are sums along the ways of messages (load.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sequencer.simulation.counts import Track
from sequencer.simulation.latency import mean_and_most, settled
from sequencer.simulation.load import busiest, stretches
from sequencer.simulation.plan import Ground, plan
from sequencer.simulation.topology import Floats, Shape, transit_stub
from sequencer.simulation.workload import Groups, nearest_groups, zipf_groups

ANYWHERE = "anywhere"
NEAREST = "nearest"


@dataclass(frozen=True, slots=True)
class Varied:
    """Means over the runs for a number of hosts and groups; `stretch_most`: the worst receiver.

    `members`: hosts drawn from ANYWHERE, or the NEAREST to one that is drawn. `hops` are nodes that
    a message passes; `receiver`, `ordering`, `passing`, `total` are messages (load.Busiest).
    `direct_ms` is the mean direct delay of a delivery to another host.
    """

    hosts: int
    groups: int
    members: str
    runs: int
    atoms: float
    nodes: float
    hops: float
    receiver: float
    ordering: float
    passing: float
    total: float
    direct_ms: float
    stretch: float
    stretch_most: float


def figure(
    track: Track[tuple[int, int, int]],
    seed: int,
    *,
    runs: int = 2,
    hosts: Sequence[int] = (32, 64, 96, 128),
    counts: Sequence[int] = (8, 16, 32),
    shape: Shape | None = None,
) -> list[Varied]:
    """Every number of hosts with every number of groups; sizes of groups after Zipf."""
    topology = transit_stub(np.random.default_rng([seed, 1]), shape)
    jobs = [(size, count, run) for size in hosts for count in counts for run in range(runs)]
    measured: dict[tuple[int, int, str], list[tuple[list[float], Floats]]] = {}
    for size, count, run in track(jobs):
        rng = np.random.default_rng([seed, 8, size, count, run])
        where = settled(topology, rng, size)
        drawn = {
            ANYWHERE: zipf_groups(rng, list(where.hosts), count),
            NEAREST: nearest_groups(rng, where.direct, count),
        }
        for members, groups in drawn.items():
            measured.setdefault((size, count, members), []).append(_measured(groups, where))
    return [_mean(*key, runs_of) for key, runs_of in measured.items()]


def _measured(groups: Groups, where: Ground) -> tuple[list[float], Floats]:
    laid = plan(groups, where)
    most = busiest(groups, laid.graph, laid.nodes)
    hops = sum(len(groups[group]) * len(path) for group, path in laid.paths.items())
    figures = [
        float(len(laid.graph.atoms)),
        float(len(set(laid.nodes.values()))),
        hops / most.total,
        most.receiver,
        most.ordering,
        most.passing,
        most.total,
        _direct_ms(groups, where),
    ]
    return figures, stretches(groups, laid.paths, where, laid.site)


def _direct_ms(groups: Groups, where: Ground) -> float:
    number = {name: at for at, name in enumerate(where.hosts)}
    total, count = 0.0, 0
    for members in groups.values():
        hosts = np.array([number[name] for name in sorted(members)], dtype=np.int64)
        total += sum(float(where.direct[name][hosts].sum()) for name in sorted(members))
        count += len(hosts) * (len(hosts) - 1)
    return total / max(count, 1)


def _mean(hosts: int, groups: int, members: str, runs: list[tuple[list[float], Floats]]) -> Varied:
    stretch = np.concatenate([ratios for _, ratios in runs])
    means: list[float] = np.mean([figures for figures, _ in runs], axis=0).tolist()
    return Varied(hosts, groups, members, len(runs), *(*means, *mean_and_most(stretch)))
