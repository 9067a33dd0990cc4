"""A sequencing network laid out on a topology: atoms on nodes, nodes and hosts on routers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sequencer.groups.network.graph import Graph, build, require
from sequencer.groups.network.membership import View, Views
from sequencer.groups.network.nearness import Sites, near
from sequencer.groups.network.overlaps import Overlap, Pair, ordered_overlaps
from sequencer.groups.network.placement import node_paths, place
from sequencer.simulation.carrier import NONE, Carrier, Faults
from sequencer.simulation.events import Events
from sequencer.simulation.network import Network
from sequencer.simulation.topology import Floats, Ints, Topology
from sequencer.simulation.workload import Groups, rates

# Routers round the middle of all hosts where nodes may stand, beside the transit routers.
MIDST = 200
# With this many hosts at most, nodes may stand at each of them too.
HOSTS_AS_SITES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Ground:
    """Hosts on a topology, and the sites where nodes may stand. Delays are in milliseconds.

    `home`: subscriber -> router; `hosts`: subscribers by name; `sites`: routers; `apart`: sites x
    sites; `away`: subscriber -> its delay to each site; `direct`: receiver -> its delay to each
    host, in the order of `hosts` (for some receivers only, if that is all that is measured).
    """

    home: Mapping[str, int]
    hosts: tuple[str, ...]
    sites: Ints
    apart: Floats
    away: Mapping[str, Floats]
    direct: Mapping[str, Floats]


@dataclass(frozen=True, slots=True)
class NetworkPlan:
    """`nodes`: atom -> node; `paths`: group -> its nodes; `site`: node -> its place in `sites`.

    A group without atoms has a node of its own that is its ingress and nothing else: those are
    `ingress_only`, and the paper does not count them (section 4.3).
    """

    groups: Groups
    graph: Graph
    nodes: Mapping[Pair, int]
    paths: Mapping[str, tuple[int, ...]]
    ingress_only: frozenset[int]
    site: Mapping[int, int]


def ground(
    topology: Topology, home: Mapping[str, int], receivers: Sequence[str] | None = None
) -> Ground:
    """Delays for subscribers on these routers; `direct` for `receivers` (all if not given).

    Sites are the transit routers, the routers around the one of them that is nearest to all hosts,
    and the hosts' own routers unless there are very many.
    """
    names = tuple(sorted(home))
    hosts = np.array([home[name] for name in names])
    transit = np.flatnonzero(topology.stub < 0)
    centre = transit[np.argmin(topology.delays(transit)[:, hosts].sum(axis=1))]
    midst = np.argsort(topology.delays([int(centre)])[0], kind="stable")[:MIDST]
    host_sites = hosts if len(hosts) <= HOSTS_AS_SITES_MAX else hosts[:0]
    sites = np.unique(np.concatenate([transit, midst, host_sites]))
    rows = topology.delays(sites)
    wanted = names if receivers is None else tuple(receivers)
    routers, row = np.unique(np.array([home[name] for name in wanted]), return_inverse=True)
    direct = topology.delays(routers)[:, hosts]
    return Ground(
        home,
        names,
        sites,
        rows[:, sites],
        dict(zip(names, rows[:, hosts].T, strict=True)),
        {name: direct[at] for name, at in zip(wanted, row.tolist(), strict=True)},
    )


def assign(
    groups: Groups, overlaps: Sequence[Overlap] | None = None
) -> tuple[Graph, dict[Pair, int], dict[str, tuple[int, ...]]]:
    """The graph of groups (checked), a node for each atom, and the nodes on each group's path.

    The rates are those of one message from every member of every group. Groups without members
    have no path. `overlaps` as in graph.build: by default all that need an atom.
    """
    peopled = {group: members for group, members in groups.items() if members}
    if overlaps is None:
        overlaps = ordered_overlaps(peopled)
    graph = require(build(peopled, rates(peopled), overlaps=overlaps), peopled, overlaps)
    nodes = place(graph, peopled, rates(peopled))
    return graph, nodes, node_paths(graph, nodes)


def plan(groups: Groups, where: Ground, *, nodes_per_site: int = 1) -> NetworkPlan:
    """Lay out a network near its subscribers, for the least sum of latency stretches."""
    graph, nodes, paths = assign(groups)
    following = 1 + max(nodes.values(), default=-1)
    ingress_only = set()
    for group in sorted(paths):
        if not paths[group]:
            paths[group] = (following,)
            ingress_only.add(following)
            following += 1
    site = near(
        paths,
        groups,
        Sites(where.apart, where.away),
        urgency(groups, where),
        nodes_per_site=nodes_per_site,
    )
    return NetworkPlan(groups, graph, nodes, paths, frozenset(ingress_only), site)


def urgency(groups: Groups, where: Ground) -> dict[str, float]:
    """1 / (mean direct delay of what a subscriber gets from others; at least 1 ms), for each.

    With these weights a sum of delays is one of stretches. Subscribers whose direct delays are not
    measured get the mean of the others.
    """
    number = {name: at for at, name in enumerate(where.hosts)}
    total = dict.fromkeys(where.direct, 0.0)
    count = dict.fromkeys(where.direct, 0)
    for members in groups.values():
        hosts = np.array(sorted(number[name] for name in members), dtype=np.int64)
        for name in members & total.keys():
            total[name] += float(where.direct[name][hosts].sum())
            count[name] += len(hosts) - 1
    urgencies = {name: 1 / max(total[name] / max(count[name], 1), 1.0) for name in sorted(total)}
    usual = sum(urgencies.values()) / max(len(urgencies), 1)
    return {name: urgencies.get(name, usual) for name in where.hosts}


def static_views(groups: Groups, graph: Graph) -> Views:
    """All groups in one view, number 1, that is open from the beginning."""
    peopled = {group: members for group, members in groups.items() if members}
    everyone = frozenset[str]().union(*peopled.values())
    return Views(
        groups=dict(peopled),
        views={1: View(1, peopled, graph)},
        latest=1,
        starts={group: [1] for group in peopled},
        joins={member: [1] for member in sorted(everyone)},
    )


def network(
    laid: NetworkPlan, where: Ground, rng: np.random.Generator, faults: Faults = NONE
) -> Network:
    """Simulated machines as planned: node 3 is `N3`, hosts have the names of their subscribers."""
    place_of: dict[str, int] = {f"N{node}": site for node, site in laid.site.items()}
    number = {name: at for at, name in enumerate(where.hosts)}

    def delay_us(source: str, target: str) -> int:
        if source in place_of and target in place_of:
            ms = where.apart[place_of[source], place_of[target]]
        elif source in place_of or target in place_of:
            node, host = (source, target) if source in place_of else (target, source)
            ms = where.away[host][place_of[node]]
        else:
            ms = where.direct[source][number[target]]
        return round(float(ms) * 1000)

    events = Events()
    simulated = Network(
        events,
        static_views(laid.groups, laid.graph),
        {1: {pair: f"N{node}" for pair, node in laid.nodes.items()}},
        {group: f"N{path[0]}" for group, path in laid.paths.items()},
        round(faults.commit_ms * 1000),
    )
    simulated.carrier = Carrier(events, rng, delay_us, simulated.arrive, faults)
    return simulated
