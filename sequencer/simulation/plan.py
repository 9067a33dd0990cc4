"""A sequencing network laid out on a topology: atoms on nodes, nodes and hosts on routers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sequencer.overlaps.graph import Graph, build
from sequencer.overlaps.membership import View, Views
from sequencer.overlaps.nearness import Sites, near
from sequencer.overlaps.ordering import Message
from sequencer.overlaps.overlaps import Pair
from sequencer.overlaps.placement import node_path, place
from sequencer.simulation.carrier import NONE, Carrier, Faults
from sequencer.simulation.events import Events
from sequencer.simulation.network import Network
from sequencer.simulation.topology import Floats, Ints, Topology
from sequencer.simulation.workload import Groups, rates


@dataclass(frozen=True, slots=True)
class Ground:
    """Hosts on a topology, and the sites where nodes may stand.

    `home`: subscriber -> its router; `sites`: routers; `site_apart`: sites x sites, milliseconds;
    `host_away`: subscriber -> its distance to each site; `direct`: hosts x hosts, hosts by name.
    """

    home: Mapping[str, int]
    sites: Ints
    site_apart: Floats
    host_away: Mapping[str, Floats]
    direct: Floats


@dataclass(frozen=True, slots=True)
class Plan:
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


def ground(topology: Topology, home: Mapping[str, int]) -> Ground:
    """Distances of hosts, and of sites: the transit routers, hosts' routers, and those in the midst.

    In the midst are the stub domains at the transit router that is nearest to all hosts.
    """
    names = sorted(home)
    hosts = np.array([home[name] for name in names])
    transit = np.flatnonzero(topology.stub < 0)
    from_hosts = topology.delays(np.unique(hosts))
    row = {router: at for at, router in enumerate(np.unique(hosts).tolist())}
    away = from_hosts[[row[router] for router in hosts.tolist()]]
    centre = int(transit[np.argmin(away[:, transit].sum(axis=0))])
    domain = np.flatnonzero((topology.domain == topology.domain[centre]) & (topology.stub >= 0))
    own = domain[np.argsort(away[:, domain].sum(axis=0), kind="stable")[:200]]
    sites = np.unique(np.concatenate([transit, hosts, own]))
    return Ground(
        home,
        sites,
        topology.delays(sites)[:, sites],
        {name: away[at, sites] for at, name in enumerate(names)},
        away[:, hosts],
    )


def assign(groups: Groups) -> tuple[Graph, dict[Pair, int], dict[str, tuple[int, ...]]]:
    """The graph of groups, a node for each atom, and the nodes on each group's path.

    The rates are those of one message from every member of every group. Groups without members
    have no path.
    """
    some = {group: members for group, members in groups.items() if members}
    graph = build(some, rates(some))
    nodes = place(graph, some, rates(some))
    return graph, nodes, {group: node_path(graph, nodes, group) for group in some}


def plan(groups: Groups, where: Ground, *, nodes_per_site: int = 1) -> Plan:
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
        Sites(where.site_apart, where.host_away),
        urgency(groups, where),
        nodes_per_site=nodes_per_site,
    )
    return Plan(groups, graph, nodes, paths, frozenset(ingress_only), site)


def direct_ms(groups: Groups, where: Ground) -> dict[str, float]:
    """Each subscriber's mean direct delay, over what others send it: one from each to each group.

    0 for a subscriber that gets nothing from others.
    """
    names = sorted(where.home)
    at = {name: number for number, name in enumerate(names)}
    total = np.zeros(len(names))
    count = np.zeros(len(names))
    for members in groups.values():
        own = np.array(sorted(at[name] for name in members), dtype=np.int64)
        total[own] += where.direct[np.ix_(own, own)].sum(axis=0)
        count[own] += max(len(own) - 1, 0)
    mean = total / np.maximum(count, 1)
    return dict(zip(names, mean.tolist(), strict=True))


def urgency(groups: Groups, where: Ground) -> dict[str, float]:
    """1 / (mean direct delay), at most 1: the sum of weighted delays is one of stretches."""
    return {name: 1 / max(mean, 1.0) for name, mean in direct_ms(groups, where).items()}


def static_views(groups: Groups, graph: Graph) -> Views:
    """All groups in one view, number 1, that is open from the beginning."""
    some = {group: members for group, members in groups.items() if members}
    everyone = frozenset[str]().union(*some.values())
    return Views(
        groups=dict(some),
        views={1: View(1, some, graph)},
        latest=1,
        starts={group: [1] for group in some},
        joins={member: [1] for member in sorted(everyone)},
    )


def network(
    laid: Plan, where: Ground, rng: np.random.Generator, faults: Faults = NONE
) -> Network:
    """Simulated machines as planned: node 3 is `N3`, hosts have the names of their subscribers."""
    place_of: dict[str, int] = {f"N{node}": site for node, site in laid.site.items()}
    names = sorted(where.home)
    number = {name: at for at, name in enumerate(names)}

    def delay_us(source: str, target: str) -> int:
        if source in place_of and target in place_of:
            ms = where.site_apart[place_of[source], place_of[target]]
        elif source in place_of or target in place_of:
            node, host = (source, target) if source in place_of else (target, source)
            ms = where.host_away[host][place_of[node]]
        else:
            ms = where.direct[number[source], number[target]]
        return round(float(ms) * 1000)

    events = Events()
    found = Network(
        events,
        static_views(laid.groups, laid.graph),
        {1: {pair: f"N{node}" for pair, node in laid.nodes.items()}},
        {group: f"N{path[0]}" for group, path in laid.paths.items()},
        round(faults.commit_ms * 1000),
    )
    found.carrier = Carrier(events, rng, delay_us, found.arrive, faults)
    return found


def expected_ms(laid: Plan, where: Ground, message: Message, receiver: str) -> float:
    """What a message takes to a receiver if nothing holds it up: the sum of its ways."""
    sites = [laid.site[node] for node in laid.paths[message.group]]
    between = sum(where.site_apart[one, two] for one, two in _steps(sites))
    first, last = where.host_away[message.sender][sites[0]], where.host_away[receiver][sites[-1]]
    return float(first + between + last)


def _steps(sites: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(sites, sites[1:], strict=False))
