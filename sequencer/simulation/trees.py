"""Is a line of atoms the best? What nodes see, and the hops, on other lines and on trees.

A graph that satisfies C1 to C3 is a tree of atoms in which every group has a directed path. If one
group overlaps with all others (the largest one, where it has all subscribers), nothing that a tree
can do makes the busiest atom see less than on a line: any two groups that overlap both meet that
group, and parts of a tree that meet in pairs meet in one place, so all overlaps could as well stand
on its path alone. What is left is the order on the line (`least_seen`), the hops (annealing.py),
and how low any tree can come (`unavoidable`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sequencer.groups.network.graph import Graph, require
from sequencer.groups.network.lines import Line
from sequencer.groups.network.overlaps import Pair
from sequencer.groups.network.placement import loads, node_path, place
from sequencer.simulation.annealing import annealed, graph_of
from sequencer.simulation.counts import Track
from sequencer.simulation.load import busiest, unavoidable
from sequencer.simulation.plan import assign
from sequencer.simulation.workload import Groups, names, rates, zipf_groups

# Moves of one group on the line, and steps of the annealing.
MOVES = 3_000
STEPS = 60_000


@dataclass(frozen=True, slots=True)
class Compared:
    """Means over the runs: the line that is built, the line made to see least, annealed trees.

    `…_seen` is what the busiest node sees, `…_hops` the nodes that a message passes, `…_nodes`
    how many there are; `total` all messages, `unavoidable` the least that any graph can see.
    `lines` is the share of runs in which the annealing ended with a line.
    """

    groups: int
    runs: int
    total: float
    unavoidable: float
    built_nodes: float
    built_seen: float
    built_hops: float
    least_nodes: float
    least_seen: float
    least_hops: float
    tree_nodes: float
    tree_seen: float
    tree_hops: float
    lines: float


def figure(
    track: Track[tuple[int, int]],
    seed: int,
    *,
    runs: int = 2,
    subscribers: int = 128,
    counts: Sequence[int] = (8, 16, 32, 64),
    steps: int = STEPS,
) -> list[Compared]:
    """Sizes of groups after Zipf, the largest has all subscribers; rates as in load.py."""
    measured: dict[int, list[list[float]]] = {count: [] for count in counts}
    for count, run in track([(count, run) for count in counts for run in range(runs)]):
        rng = np.random.default_rng([seed, 9, count, run])
        measured[count].append(
            _compared(zipf_groups(rng, names("H", subscribers), count), rng, steps)
        )
    return [
        Compared(count, runs, *np.mean(rows, axis=0).tolist()) for count, rows in measured.items()
    ]


def _compared(groups: Groups, rng: np.random.Generator, steps: int) -> list[float]:
    weights = rates(groups)
    graph, nodes, _ = assign(groups)
    most = busiest(groups, graph, nodes)
    line = least_seen(groups, graph, rng)
    bags: list[set[str]] = [set() for _ in set(nodes.values())]
    for pair, node in nodes.items():
        bags[node].update(pair)
    tree, bags = annealed(tuple(graph.atoms), weights, bags, most.receiver, rng, steps)
    grown, hosts = graph_of(graph.atoms, groups, tree, bags)
    ends = [node for edge in tree.edges for node in edge]
    return [
        most.total,
        unavoidable(groups, graph),
        *_figures(groups, graph, nodes),
        *_figures(groups, line, place(line, groups, weights)),
        *_figures(groups, require(grown, groups), hosts),
        float(max(map(ends.count, ends), default=0) <= 2),
    ]


def _figures(groups: Groups, graph: Graph, nodes: Mapping[Pair, int]) -> tuple[float, float, float]:
    """Nodes, what the busiest sees, and the nodes that a message passes."""
    weights = rates(groups)
    seen = max((load.passing for load in loads(graph, groups, nodes, weights)), default=0.0)
    hops = sum(
        weight * max(1, len(node_path(graph, nodes, name))) for name, weight in weights.items()
    )
    return float(len(set(nodes.values()))), seen, hops / sum(weights.values())


def least_seen(groups: Groups, graph: Graph, rng: np.random.Generator) -> Graph:
    """The atoms of a graph on one line on which the busiest atom sees little, checked.

    Groups come one after the other, each with its atoms with those before; a group goes on until
    its last partner has come. First the group that leaves least open, then MOVES of single groups
    to other places are tried, and those kept that make the busiest place see no more.
    """
    weights = rates(groups)
    partners: dict[str, set[str]] = {name: set() for pair in graph.atoms for name in pair}
    for one, other in graph.atoms:
        partners[one].add(other)
        partners[other].add(one)
    order = _greedy(partners, weights)
    seen = _seen(order, partners, weights)
    for _ in range(MOVES if len(order) > 1 else 0):
        at, to = rng.integers(len(order), size=2).tolist()
        tried = order[:at] + order[at + 1 :]
        tried.insert(to, order[at])
        if (now := _seen(tried, partners, weights)) <= seen:
            order, seen = tried, now
    place_of = {name: at for at, name in enumerate(order)}
    ends = {name: max(place_of[partner] for partner in (name, *partners[name])) for name in order}
    line = Line(
        (min(name, other), max(name, other))
        for name in order
        for other in sorted(partners[name], key=lambda partner: (ends[partner], partner))
        if place_of[other] < place_of[name]
    )
    paths: dict[str, Sequence[Pair]] = dict.fromkeys(groups, ())
    paths.update(line.runs())
    return require(Graph(graph.atoms, paths), groups)


def _greedy(partners: Mapping[str, Collection[str]], weights: Mapping[str, float]) -> list[str]:
    """Always the group that adds least to what is open, counting those that it lets end."""
    remaining = {name: len(others) for name, others in partners.items()}
    order: list[str] = []
    waiting = set(partners)
    opened: set[str] = set()

    def cost(name: str) -> tuple[float, int, str]:
        ending = sum(
            weights[partner]
            for partner in partners[name]
            if partner in opened and remaining[partner] == 1
        )
        return weights[name] - ending, remaining[name], name

    while waiting:
        chosen = min(waiting, key=cost)
        waiting.discard(chosen)
        opened.add(chosen)
        order.append(chosen)
        for partner in partners[chosen]:
            remaining[partner] -= 1
        opened.difference_update(
            partner for partner in (chosen, *partners[chosen]) if not remaining[partner]
        )
    return order


def _seen(
    order: Sequence[str], partners: Mapping[str, Collection[str]], weights: Mapping[str, float]
) -> float:
    """Messages at the busiest place: of the groups that are open there."""
    remaining = {name: len(others) for name, others in partners.items()}
    placed: set[str] = set()
    opened = most = 0.0
    for name in order:
        opened += weights[name]
        most = max(most, opened)
        placed.add(name)
        for partner in partners[name]:
            remaining[partner] -= 1
        ended = (
            partner
            for partner in (name, *partners[name])
            if partner in placed and not remaining[partner]
        )
        opened -= sum(weights[ended_pair] for ended_pair in ended)
    return most
