"""The sequencing graph: an atom for each overlap, a path of atoms for each group.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 3.2, asks for

- C1: one path for each group, through all atoms of the group;
- C2: the undirected graph has no loop.

Groups that cross an edge in opposite directions can still pass each other on it, so there is

- C3: an edge has one direction, and every path takes it that way.

Why the three are enough. Cut a tree of atoms at an edge. By induction the messages of each side
have an order that all its atoms agree with. Both sides share only the messages that cross the
edge, all in one direction, and, as edges keep their order, in the same order on both sides. Two
orders that share one chain join into one order. (With both directions the shared messages are no
chain, and with a loop they may overtake each other: then a ring is possible.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sequencer.groups.network.arrangement import Wanted, best_lines
from sequencer.groups.network.lines import Line, Run
from sequencer.groups.network.overlaps import Membership, Overlap, Pair, ordered_overlaps
from sequencer.groups.network.parts import connected
from sequencer.groups.network.rates import Rates, busiest, checked_rates

if TYPE_CHECKING:
    import networkx as nx

Edge = tuple[Pair, Pair]
# The shortest loops are looked for in a graph of this many atoms; in a larger one, any loop.
_SHORTEST_LOOP_MAX = 200


@dataclass(frozen=True, slots=True)
class Graph:
    """`atoms`: pair -> the subscribers of both; `paths`: group -> its atoms in order of passage.

    A path may pass atoms of other pairs (transit; they give no number). The path of a group
    without atoms is empty: its ingress numbers its messages, and that is all they need.
    A path is any sequence of atoms; those that `build` gives are runs of a line.
    """

    atoms: Mapping[Pair, frozenset[str]]
    paths: Mapping[str, Sequence[Pair]]

    def stamping(self, group: str) -> tuple[Pair, ...]:
        """The atoms on the path of a group that number its messages."""
        path = self.paths[group]
        if isinstance(path, Run):
            return path.stamping(group)
        return tuple(pair for pair in path if group in pair)

    def edges(self) -> dict[Edge, tuple[str, ...]]:
        """Directed edges and the groups that take them, both sorted.

        As large as all paths together: for pictures and small graphs.
        """
        users: dict[Edge, list[str]] = {}
        for group in sorted(self.paths):
            for edge in pairwise(self.paths[group]):
                users.setdefault(edge, []).append(group)
        return {edge: tuple(users[edge]) for edge in sorted(users)}

    def lines(self) -> tuple[Line, ...]:
        """The lines that paths are runs of, by the first group on each."""
        line_of: dict[int, Line] = {}
        for _, path in sorted(self.paths.items()):
            if isinstance(path, Run) and path:
                line_of.setdefault(id(path.line), path.line)
        return tuple(line_of.values())

    def order(self) -> tuple[Pair, ...]:
        """All atoms, those of every path in their order of passage: line after line.

        ValueError if there is no such order (C2 or C3 does not hold).
        """
        if all(isinstance(path, Run) for path in self.paths.values()):
            order = tuple(pair for line in self.lines() for pair in line.atoms)
            if set(order) == set(self.atoms):
                return order
        import networkx as nx  # noqa: PLC0415  (20 MB, for graphs that others made)

        whole = nx.DiGraph(list(self.edges()))
        whole.add_nodes_from(self.atoms)
        try:
            return tuple(nx.lexicographical_topological_sort(whole))
        except nx.NetworkXUnfeasible as error:
            raise ValueError("the paths lead in a ring: no order; see check") from error


@dataclass(frozen=True, slots=True)
class Violation:
    """A criterion (C1, C2 or C3) that a graph breaks, with the groups and atoms that show it."""

    criterion: str
    what: str
    groups: tuple[str, ...]
    atoms: tuple[Pair, ...]

    def __str__(self) -> str:
        atoms = ", ".join("+".join(pair) for pair in self.atoms)
        return f"{self.criterion}: {self.what}: groups {', '.join(self.groups)}; atoms {atoms}"


class GraphError(ValueError):
    """A graph that would not keep the order; nothing was changed. `violations` tell why."""

    def __init__(self, violations: Sequence[Violation]) -> None:
        super().__init__("; ".join(map(str, violations)))
        self.violations = tuple(violations)


def build(
    groups: Membership,
    rates: Rates | None = None,
    *,
    nodes_max: int | None = None,
    overlaps: Sequence[Overlap] | None = None,
) -> Graph:
    """A graph for a membership that satisfies C1, C2 and C3; the same for equal arguments.

    All atoms that are connected through groups stand on one line, and all paths lead along it
    in one direction, from the first atom of their group to the last. The order of the line is
    the one that placement.place can cut into nodes with the fewest hops, for these `rates` and
    `nodes_max`; with others the graph is as good, only the hops may be more.

    `overlaps`, sorted by pair, are those that get an atom: by default all that need one. With
    `double_overlaps(groups)` it is the paper's graph, for comparison: rings are not kept out.
    ValueError for rates that are not there.
    """
    rates = checked_rates(groups, rates)
    require_nodes(nodes_max)
    if overlaps is None:
        overlaps = ordered_overlaps(groups)
    names = sorted(groups)
    number = {name: at for at, name in enumerate(names)}
    pairs = np.array(
        [[number[name] for name in overlap.pair] for overlap in overlaps], dtype=np.int64
    ).reshape(-1, 2)
    weights = np.array([rates[name] for name in names], dtype=np.float64)
    # Equal sets of subscribers have one number, that of the first of them.
    first: dict[frozenset[str], int] = {}
    kinds = np.array(
        [first.setdefault(overlap.members, at) for at, overlap in enumerate(overlaps)],
        dtype=np.int64,
    )
    _, limit = busiest(groups, rates)
    paths: dict[str, Sequence[Pair]] = dict.fromkeys(names, ())
    for atoms in best_lines(Wanted(pairs, kinds, weights, limit, nodes_max)):
        line = Line((names[one], names[other]) for one, other in atoms.tolist())
        paths.update(line.runs())
    return Graph({overlap.pair: overlap.members for overlap in overlaps}, paths)


def require_nodes(nodes_max: int | None) -> None:
    """ValueError if there is no node to place atoms on."""
    if nodes_max is not None and nodes_max < 1:
        raise ValueError(f"nodes_max is {nodes_max}: no atom was placed; give 1 or more")


def check(
    graph: Graph, groups: Membership, overlaps: Sequence[Overlap] | None = None
) -> tuple[Violation, ...]:
    """All that is wrong with a graph for a membership; () if it satisfies C1, C2 and C3.

    `overlaps` as in `build`.
    """
    if overlaps is None:
        overlaps = ordered_overlaps(groups)
    edges = _edges(graph.paths.values())
    return (
        *_check_paths(graph, groups, overlaps),
        *_check_loops(graph, edges),
        *_check_directions(graph, edges),
    )


def require(graph: Graph, groups: Membership, overlaps: Sequence[Overlap] | None = None) -> Graph:
    """The graph itself, or `GraphError`; `overlaps` as in `build`."""
    violations = check(graph, groups, overlaps)
    if violations:
        raise GraphError(violations)
    return graph


def _check_paths(
    graph: Graph, groups: Membership, overlaps: Sequence[Overlap]
) -> Iterator[Violation]:
    for group in sorted(set(groups) - set(graph.paths)):
        yield Violation("C1", "no path", (group,), ())
    passed = {
        group: path if isinstance(path, Run) else frozenset(path)
        for group, path in graph.paths.items()
    }
    for overlap in overlaps:
        for group in overlap.pair:
            if overlap.pair not in passed.get(group, ()):
                yield Violation(
                    "C1", "an atom of the group is off its path", (group,), (overlap.pair,)
                )
    unknown = {pair for line in graph.lines() for pair in line.atoms if pair not in graph.atoms}
    for group, path in sorted(graph.paths.items()):
        if isinstance(path, Run):
            # A line has each atom once, so a run of it has too.
            unneeded = tuple(sorted(pair for pair in unknown if pair in path))
        else:
            passages = Counter(path)
            twice = tuple(sorted(pair for pair, times in passages.items() if times > 1))
            if twice:
                yield Violation("C1", "the path passes an atom twice", (group,), twice)
            unneeded = tuple(sorted(passages.keys() - graph.atoms.keys()))
        if unneeded:
            yield Violation("C1", "the path passes an atom that is not there", (group,), unneeded)


def _edges(paths: Iterable[Sequence[Pair]]) -> set[Edge]:
    """The edges of all paths; those that runs of one line have in common are looked at once."""
    edges: set[Edge] = set()
    stretches: dict[int, list[Run]] = {}
    for path in paths:
        if isinstance(path, Run):
            stretches.setdefault(id(path.line), []).append(path)
        else:
            edges.update(pairwise(path))
    for runs in stretches.values():
        seen = 0
        for run in sorted(runs, key=lambda run: run.start):
            edges.update(pairwise(run.line.atoms[max(seen, run.start) : run.stop]))
            # The last atom is seen again: the next edge begins there.
            seen = max(seen, run.stop - 1)
    return edges


def _users(graph: Graph, edges: Iterable[Edge]) -> tuple[str, ...]:
    """The groups that take one of some edges, sorted; the paths are gone through one by one."""
    wanted = set(edges)
    return tuple(
        group
        for group, path in sorted(graph.paths.items())
        if any(edge in wanted for edge in pairwise(path))
    )


def _check_loops(graph: Graph, edges: set[Edge]) -> Iterator[Violation]:
    """A loop of each part of the graph that has one, a smallest one if the part is small."""
    both_ways = {(min(edge), max(edge)) for edge in edges}
    number = {pair: at for at, pair in enumerate({pair for edge in both_ways for pair in edge})}
    if not number:
        return
    parts = connected(len(number), ((number[one], number[other]) for one, other in both_ways))
    # A forest has an edge less than atoms in each part, and any further edge closes a loop.
    if len(both_ways) == len(number) - len(set(parts)):
        return
    import networkx as nx  # noqa: PLC0415  (20 MB, for graphs that have a fault)

    whole = nx.k_core(nx.Graph([edge for edge in sorted(both_ways) if edge[0] != edge[1]]), 2)
    for part in sorted(map(sorted, nx.connected_components(whole))):
        loop = _loop(whole.subgraph(part).copy(), part[0])
        used = _users(graph, (edge for edge in edges if set(edge) <= set(loop)))
        yield Violation("C2", "the graph has a loop", used, tuple(loop))


def _loop(part: nx.Graph, first: Pair) -> list[Pair]:
    """The atoms of a loop, sorted."""
    import networkx as nx  # noqa: PLC0415  (likewise)

    if len(part) > _SHORTEST_LOOP_MAX:
        return sorted({pair for edge in nx.find_cycle(part, first) for pair in edge})
    loops: list[list[Pair]] = [sorted(loop) for loop in nx.minimum_cycle_basis(part)]
    return min(loops, key=lambda atoms: (len(atoms), atoms))


def _check_directions(graph: Graph, edges: set[Edge]) -> Iterator[Violation]:
    for first, second in sorted(
        edge for edge in edges if edge[0] < edge[1] and edge[::-1] in edges
    ):
        there, back = (_users(graph, [edge])[0] for edge in ((first, second), (second, first)))
        yield Violation("C3", "an edge is taken in both directions", (there, back), (first, second))
