"""Which node hosts which atoms, and whether that keeps the paper's limit of load.

"Decentralized Message Ordering for Publish/Subscribe Systems", sections 3.3 and 4.3: overlaps that
are equal to, subsets of or supersets of each other share a node, and no node orders more messages
than the busiest receiver gets. Messages that only pass an atom (transit) are outside of that limit:
`Load.passing` counts them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby

from sequencer.overlaps.graph import Graph
from sequencer.overlaps.overlaps import Membership, Pair

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
    graph: Graph, groups: Membership, rates: Mapping[str, float] | None = None
) -> dict[Pair, int]:
    """A node, counted from 0, for each atom; the same for equal arguments.

    `rates` are messages per group in any unit, 1 if not given. Atoms with equal overlaps share a
    node; smaller overlaps join a node with a superset of theirs if it stays within the limit, the
    one where they add the least load.
    """
    rates = _rates(groups, rates)
    _, limit = _busiest(groups, rates)
    classes: dict[frozenset[str], list[Pair]] = {}
    for pair, members in sorted(graph.atoms.items()):
        classes.setdefault(members, []).append(pair)
    largest: list[frozenset[str]] = []
    ordered: list[frozenset[str]] = []
    nodes: dict[Pair, int] = {}
    for members in sorted(classes, key=lambda some: (-len(some), sorted(some))):
        own = frozenset(name for pair in classes[members] for name in pair)
        joined = (
            (sum(rates[name] for name in own | ordered[node]), node)
            for node, superset in enumerate(largest)
            if members < superset
        )
        fitting = [
            (load - sum(rates[name] for name in ordered[node]), node)
            for load, node in joined
            if load <= limit
        ]
        if fitting:
            _, node = min(fitting)
            ordered[node] |= own
        else:
            node = len(largest)
            largest.append(members)
            ordered.append(own)
        nodes.update(dict.fromkeys(classes[members], node))
    return nodes


def loads(
    graph: Graph,
    groups: Membership,
    nodes: Placement,
    rates: Mapping[str, float] | None = None,
) -> tuple[Load, ...]:
    """The load of every node, by node."""
    rates = _rates(groups, rates)
    ordering: dict[int, set[str]] = {node: set() for node in nodes.values()}
    passing: dict[int, set[str]] = {node: set() for node in nodes.values()}
    for group, path in graph.paths.items():
        for pair in path:
            passing[nodes[pair]].add(group)
            if group in pair:
                ordering[nodes[pair]].add(group)
    return tuple(
        Load(
            node,
            sum(rates[name] for name in sorted(ordering[node])),
            sum(rates[name] for name in sorted(passing[node])),
        )
        for node in sorted(ordering)
    )


def check_load(
    graph: Graph,
    groups: Membership,
    nodes: Placement,
    rates: Mapping[str, float] | None = None,
) -> tuple[Overload, ...]:
    """All nodes that order more messages than the busiest receiver gets."""
    some = _rates(groups, rates)
    busiest, limit = _busiest(groups, some)
    found: list[Overload] = []
    for load in loads(graph, groups, nodes, some):
        # Sums of the same rates in another order may differ in the last digits.
        if load.ordering > limit * (1 + 1e-9):
            names = {name for pair, node in nodes.items() if node == load.node for name in pair}
            found.append(Overload(load.node, load.ordering, tuple(sorted(names)), busiest, limit))
    return tuple(found)


def node_path(graph: Graph, nodes: Placement, group: str) -> tuple[int, ...]:
    """The nodes that a group's messages pass, one entry for neighbouring atoms of one node."""
    return tuple(node for node, _ in groupby(nodes[pair] for pair in graph.paths[group]))


def _rates(groups: Membership, rates: Mapping[str, float] | None) -> Mapping[str, float]:
    if rates is None:
        return dict.fromkeys(groups, 1.0)
    wrong = sorted(name for name in groups if not rates.get(name, -1) >= 0)
    if wrong:
        raise ValueError(f"no rate of 0 or more for {', '.join(wrong)}: give one for each group")
    return rates


def _busiest(groups: Membership, rates: Mapping[str, float]) -> tuple[str, float]:
    """The receiver with the most messages, and how many; the first by name of several."""
    received: dict[str, float] = {}
    for group in sorted(groups):
        for member in set(groups[group]):
            received[member] = received.get(member, 0) + rates[group]
    if not received:
        return "", 0.0
    return min(received.items(), key=lambda item: (-item[1], item[0]))
