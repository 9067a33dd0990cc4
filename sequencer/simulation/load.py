"""Load of the busiest node and latency stretch, against other ways to place the sequencing.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 3.3: no node sees more
messages than receivers do, and a random placement costs needless hops. Every member sends one
message to each of its groups, as in section 4.2. Delays are sums along the ways of messages; the
network is not run (latency.py does that, and finds that messages hardly wait at receivers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
import numpy as np

from sequencer.groups.network.graph import Graph
from sequencer.groups.network.nearness import Sites, near
from sequencer.groups.network.overlaps import Pair
from sequencer.groups.network.placement import loads
from sequencer.simulation.counts import Track
from sequencer.simulation.latency import trials
from sequencer.simulation.plan import Ground, NetworkPlan, urgency
from sequencer.simulation.topology import Floats, Shape, Topology
from sequencer.simulation.workload import Groups, rates


@dataclass(frozen=True, slots=True)
class Busiest:
    """Messages of the busiest receiver, and of the busiest nodes: those it numbers, those it sees.

    `total` are all messages: what a central sequencer numbers.
    """

    receiver: float
    ordering: float
    passing: float
    total: float


@dataclass(frozen=True, slots=True)
class Placements:
    """Ways to place the sequencing: means over the runs; `…_most` is the worst receiver of all.

    `unavoidable`: what some node sees in every graph that satisfies C1 and C2 (see the function).
    `limit_kept`: the share of runs in which no node orders more than the busiest receiver gets.
    `dealt_…`: as many nodes, atoms dealt to them at random. Stretch: `near` as planned; `central`
    one sequencer for everything, at the best site; `far` the same nodes on random routers;
    `alone` every atom on a random router of its own (a lower bound: atoms that a message only
    passes are left out).
    """

    groups: int
    runs: int
    nodes: float
    receiver: float
    ordering: float
    passing: float
    dealt_ordering: float
    dealt_passing: float
    unavoidable: float
    total: float
    limit_kept: float
    near: float
    near_most: float
    central: float
    central_most: float
    far: float
    far_most: float
    alone: float
    alone_most: float


def busiest(groups: Groups, graph: Graph, nodes: Mapping[Pair, int]) -> Busiest:
    """The busiest receiver, and the busiest nodes if atoms are on these nodes."""
    rate = rates(groups)
    received: dict[str, float] = {}
    for group, members in groups.items():
        for member in members:
            received[member] = received.get(member, 0.0) + rate[group]
    node_loads = loads(graph, groups, nodes, rate)
    return Busiest(
        max(received.values(), default=0.0),
        max((load.ordering for load in node_loads), default=0.0),
        max((load.passing for load in node_loads), default=0.0),
        sum(rate.values()),
    )


def unavoidable(groups: Groups, graph: Graph) -> float:
    """Messages that some node sees, whatever the graph, if it satisfies C1 and C2.

    Paths are parts of a tree. Parts of a tree that meet in pairs have an atom in common (Helly), so
    all groups of which any two have an overlap pass one atom together: here the heaviest such set.
    """
    meeting = nx.Graph(list(graph.atoms))
    weights = {name: round(rate) for name, rate in rates(groups).items()}
    meeting.add_nodes_from(weights)
    nx.set_node_attributes(meeting, weights, "messages")
    _, most = nx.max_weight_clique(meeting, weight="messages")
    return float(most)


def stretches(
    groups: Groups, paths: Mapping[str, Sequence[int]], where: Ground, site: Mapping[int, int]
) -> Floats:
    """The latency stretch of each measured receiver that gets anything from others.

    `paths`: group -> nodes, `site`: node -> its place in `where.sites`. It is what latency.measure
    finds if no message waits at its receiver.
    """
    number = {name: at for at, name in enumerate(where.hosts)}
    away = np.array([where.away[name] for name in where.hosts])
    measured = np.array(sorted(number[name] for name in where.direct))
    row = {at: index for index, at in enumerate(measured.tolist())}
    direct = np.array([where.direct[where.hosts[at]] for at in measured])
    ways, ideal = np.zeros(len(measured)), np.zeros(len(measured))
    for group, path in sorted(paths.items()):
        hosts = np.array(sorted(number[name] for name in groups[group]), dtype=np.int64)
        receiving = np.intersect1d(hosts, measured)
        rows = np.array([row[at] for at in receiving.tolist()], dtype=np.int64)
        steps = [site[node] for node in path]
        between = sum(float(where.apart[one, two]) for one, two in pairwise(steps))
        to_first = away[hosts, steps[0]].sum() - away[receiving, steps[0]]
        ways[rows] += to_first + (len(hosts) - 1) * (between + away[receiving, steps[-1]])
        ideal[rows] += direct[np.ix_(rows, hosts)].sum(axis=1)
    apart = ideal > 0
    ratios: Floats = ways[apart] / ideal[apart]
    return ratios


def figure(
    track: Track[tuple[int, int]],
    seed: int,
    *,
    runs: int = 10,
    subscribers: int = 128,
    counts: Sequence[int] = (8, 16, 32, 64),
    shape: Shape | None = None,
) -> list[Placements]:
    """Loads and stretches for some numbers of groups; ground and groups as in latency.figure."""
    measured: dict[int, list[tuple[list[float], list[Floats]]]] = {count: [] for count in counts}
    for trial in trials(track, seed, runs, subscribers, counts, shape):
        placements = _placements(trial.topology, trial.laid, trial.where, trial.rng)
        measured[trial.count].append((_loads(trial.laid, trial.rng), placements))
    return [
        Placements(count, runs, *_means(results), *_stretch_figures(results))
        for count, results in measured.items()
    ]


def _loads(laid: NetworkPlan, rng: np.random.Generator) -> list[float]:
    count = len(set(laid.nodes.values()))
    planned = busiest(laid.groups, laid.graph, laid.nodes)
    at_random = {pair: int(rng.integers(max(count, 1))) for pair in sorted(laid.graph.atoms)}
    dealt = busiest(laid.groups, laid.graph, at_random)
    return [
        float(count),
        planned.receiver,
        planned.ordering,
        planned.passing,
        dealt.ordering,
        dealt.passing,
        unavoidable(laid.groups, laid.graph),
        planned.total,
        float(planned.ordering <= planned.receiver * (1 + 1e-9)),
    ]


def _placements(
    topology: Topology, laid: NetworkPlan, where: Ground, rng: np.random.Generator
) -> list[Floats]:
    """Stretches of all receivers: near, central, far, alone."""
    urgent = urgency(laid.groups, where)
    sites = Sites(where.apart, where.away)
    one = dict.fromkeys(laid.paths, (0,))
    far = {node: at for at, node in enumerate(sorted(laid.site))}
    atoms = {pair: at for at, pair in enumerate(sorted(laid.graph.atoms))}
    alone = {
        group: tuple(atoms[pair] for pair in laid.graph.stamping(group)) or (len(atoms),)
        for group in laid.paths
    }
    return [
        stretches(laid.groups, laid.paths, where, laid.site),
        stretches(laid.groups, one, where, near(one, laid.groups, sites, urgent)),
        stretches(laid.groups, laid.paths, _random_sites(topology, where, rng, len(far)), far),
        stretches(
            laid.groups,
            alone,
            _random_sites(topology, where, rng, len(atoms) + 1),
            {at: at for at in range(len(atoms) + 1)},
        ),
    ]


def _random_sites(
    topology: Topology, where: Ground, rng: np.random.Generator, count: int
) -> Ground:
    routers = rng.choice(topology.routers, count, replace=count > topology.routers)
    rows = topology.delays(routers)
    homes = [where.home[name] for name in where.hosts]
    away = dict(zip(where.hosts, rows[:, homes].T, strict=True))
    return Ground(where.home, where.hosts, routers, rows[:, routers], away, where.direct)


def _means(results: list[tuple[list[float], list[Floats]]]) -> list[float]:
    means: list[float] = np.mean([loads for loads, _ in results], axis=0).tolist()
    return means


def _stretch_figures(results: list[tuple[list[float], list[Floats]]]) -> list[float]:
    figures: list[float] = []
    for ways in zip(*(placements for _, placements in results), strict=True):
        joined = np.concatenate(ways)
        figures += [float(joined.mean()), float(joined.max())]
    return figures
