"""Which sequencing node hosts which atoms, and whether that keeps the paper's limit of load.

"Decentralized Message Ordering for Publish/Subscribe Systems", sections 3.3 and 4.3: atoms of
related overlaps share a node, and no node orders more messages than the busiest receiver gets.
Here atoms are related if they stand next to each other on the line of the graph, which is built
for that (bags.py): equal overlaps, subsets and supersets have groups in common. Messages that only
pass an atom (transit) are outside of that limit: `Load.passing` counts them too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from sequencer.groups.network.cuts import best_cuts
from sequencer.groups.network.graph import Graph, require_nodes
from sequencer.groups.network.lines import Line, Run
from sequencer.groups.network.overlaps import Membership, Pair
from sequencer.groups.network.rates import Rates, busiest, checked_rates

Placement = Mapping[Pair, int]


@dataclass(frozen=True, slots=True)
class Load:
    """Messages of a node: those that its atoms number, and all that its atoms see.

    In the unit of the rates; a message that passes several atoms of a node counts once.
    """

    node: int
    ordering: float
    passing: float


@dataclass(frozen=True, slots=True)
class Overload:
    """A node that orders more messages than the busiest receiver gets, and the groups of both."""

    node: int
    load: float
    groups: tuple[str, ...]
    busiest: str
    limit: float

    def __str__(self) -> str:
        return (
            f"node {self.node} orders {self.load:g} messages (of {', '.join(self.groups)}), the "
            f"busiest receiver, {self.busiest}, gets {self.limit:g}"
        )


def place(
    graph: Graph, groups: Membership, rates: Rates | None = None, *, nodes_max: int | None = None
) -> dict[Pair, int]:
    """A node, counted from 0, for each atom; the same for equal arguments.

    `rates` are messages per group in any unit, 1 if not given. Each node has atoms that follow one
    another on the line, so no message reaches a node a second time. Of all ways that keep the
    limit of load, the one with the fewest hops between nodes, counted over all messages.

    At most `nodes_max` nodes are used. If that many cannot keep the limit, the largest load is
    about the least that they can have (`cuts.SLACK`), and `check_load` names the nodes past it.
    ValueError for rates that are not there, or no node.
    """
    rates = checked_rates(groups, rates)
    require_nodes(nodes_max)
    _, limit = busiest(groups, rates)
    order = graph.order()
    names = sorted({name for pair in order for name in pair})
    number = {name: at for at, name in enumerate(names)}
    line = np.array([[number[name] for name in pair] for pair in order], dtype=np.int64)
    weights = np.array([rates[name] for name in names], dtype=np.float64)
    cuts = best_cuts(line.reshape(-1, 2), weights, limit, nodes_max)
    nodes = np.searchsorted(cuts.at, np.arange(len(order)), side="right")
    return dict(zip(order, nodes.tolist(), strict=True))


def loads(
    graph: Graph, groups: Membership, nodes: Placement, rates: Rates | None = None
) -> tuple[Load, ...]:
    """The load of every node, by node."""
    rates = checked_rates(groups, rates)
    passing: dict[int, set[str]] = {node: set() for node in nodes.values()}
    for group, path in node_paths(graph, nodes).items():
        for node in path:
            passing[node].add(group)
    return tuple(
        Load(
            node,
            sum(rates[name] for name in sorted(names)),
            sum(rates[name] for name in sorted(passing[node])),
        )
        for node, names in sorted(_ordered(nodes).items())
    )


def check_load(
    graph: Graph, groups: Membership, nodes: Placement, rates: Rates | None = None
) -> tuple[Overload, ...]:
    """All nodes that order more messages than the busiest receiver gets."""
    known_rates = checked_rates(groups, rates)
    receiver, limit = busiest(groups, known_rates)
    ordered = _ordered({pair: nodes[pair] for pair in graph.atoms})
    return tuple(
        Overload(node, load, tuple(sorted(names)), receiver, limit)
        for node, names in sorted(ordered.items())
        # Sums of the same rates in another order may differ in the last digits.
        if (load := sum(known_rates[name] for name in sorted(names))) > limit * (1 + 1e-9)
    )


def node_path(graph: Graph, nodes: Placement, group: str) -> tuple[int, ...]:
    """The nodes that a group's messages pass, one entry for neighbouring atoms of one node."""
    return tuple(node for node, _ in groupby(nodes[pair] for pair in graph.paths[group]))


def node_paths(graph: Graph, nodes: Placement) -> dict[str, tuple[int, ...]]:
    """`node_path` of every group, by name, in time of the line and the hops, not of all paths."""
    laid = {id(line): stretches(line, nodes) for line in graph.lines()}
    paths: dict[str, tuple[int, ...]] = {}
    for group, path in sorted(graph.paths.items()):
        if isinstance(path, Run) and path:
            starts, hosts = laid[id(path.line)]
            first = bisect_right(starts, path.start) - 1
            paths[group] = hosts[first : bisect_right(starts, path.stop - 1)]
        else:
            paths[group] = node_path(graph, nodes, group)
    return paths


def stretches(line: Line, nodes: Placement) -> tuple[list[int], tuple[int, ...]]:
    """The places where the node changes along a line, and the node from there on."""
    hosts = [nodes[pair] for pair in line.atoms]
    starts = [at for at, node in enumerate(hosts) if not at or node != hosts[at - 1]]
    return starts, tuple(hosts[at] for at in starts)


def _ordered(nodes: Placement) -> dict[int, set[str]]:
    """The groups whose messages each node numbers."""
    groups_of: dict[int, set[str]] = {}
    for pair, node in nodes.items():
        groups_of.setdefault(node, set()).update(pair)
    return groups_of
