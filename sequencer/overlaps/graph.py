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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from sequencer.overlaps.overlaps import Membership, Overlap, Pair, ordered_overlaps

# Moving classes of atoms one by one costs the cube of their number.
_REFINED_MAX = 32
_PASSES_MAX = 4


@dataclass(frozen=True, slots=True)
class Graph:
    """`atoms`: pair -> the subscribers of both; `paths`: group -> its atoms in order of passage.

    A path may pass atoms of other pairs (transit; they give no number). The path of a group
    without atoms is empty: its ingress numbers its messages, and that is all they need.
    """

    atoms: Mapping[Pair, frozenset[str]]
    paths: Mapping[str, tuple[Pair, ...]]

    def stamping(self, group: str) -> tuple[Pair, ...]:
        """The atoms on the path of a group that number its messages."""
        return tuple(pair for pair in self.paths[group] if group in pair)

    def edges(self) -> dict[tuple[Pair, Pair], tuple[str, ...]]:
        """Directed edges and the groups that take them, both sorted."""
        users: dict[tuple[Pair, Pair], list[str]] = {}
        for group in sorted(self.paths):
            for edge in pairwise(self.paths[group]):
                users.setdefault(edge, []).append(group)
        return {edge: tuple(users[edge]) for edge in sorted(users)}


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


def build(groups: Membership) -> Graph:
    """A graph for a membership that satisfies C1, C2 and C3; the same for equal memberships.

    All atoms that are connected through groups stand on one line, and all paths lead along it
    in one direction, from the first atom of their group to the last. Atoms with equal subscribers
    are neighbours; of several orders of the line, the one with the shortest paths is taken.
    """
    overlaps = ordered_overlaps(groups)
    paths: dict[str, tuple[Pair, ...]] = dict.fromkeys(sorted(groups), ())
    for connected in _connected(overlaps):
        line = _line(connected)
        place = {pair: at for at, pair in enumerate(line)}
        for group in sorted({name for pair in line for name in pair}):
            own = [place[pair] for pair in line if group in pair]
            paths[group] = tuple(line[min(own) : max(own) + 1])
    return Graph({overlap.pair: overlap.members for overlap in overlaps}, paths)


def check(graph: Graph, groups: Membership) -> tuple[Violation, ...]:
    """All that is wrong with a graph for a membership; () if it satisfies C1, C2 and C3."""
    return (*_check_paths(graph, groups), *_check_loops(graph), *_check_directions(graph))


def require(graph: Graph, groups: Membership) -> Graph:
    """The graph itself, or `GraphError`."""
    violations = check(graph, groups)
    if violations:
        raise GraphError(violations)
    return graph


def _check_paths(graph: Graph, groups: Membership) -> Iterator[Violation]:
    for group in sorted(set(groups) - set(graph.paths)):
        yield Violation("C1", "no path", (group,), ())
    passed = {group: set(path) for group, path in graph.paths.items()}
    for overlap in ordered_overlaps(groups):
        for group in overlap.pair:
            if overlap.pair not in passed.get(group, ()):
                yield Violation(
                    "C1", "an atom of the group is off its path", (group,), (overlap.pair,)
                )
    for group, path in sorted(graph.paths.items()):
        passages = Counter(path)
        twice = tuple(sorted(pair for pair, times in passages.items() if times > 1))
        if twice:
            yield Violation("C1", "the path passes an atom twice", (group,), twice)
        unknown = tuple(sorted(passages.keys() - graph.atoms.keys()))
        if unknown:
            yield Violation("C1", "the path passes an atom that is not there", (group,), unknown)


def _check_loops(graph: Graph) -> Iterator[Violation]:
    """A smallest loop of each part of the graph that has one."""
    edges = graph.edges()
    whole = nx.Graph(list(edges))
    if whole.number_of_nodes() == 0 or nx.is_forest(whole):
        return
    for part in sorted(map(sorted, nx.connected_components(whole))):
        loops: list[list[Pair]] = [
            sorted(loop) for loop in nx.minimum_cycle_basis(whole.subgraph(part))
        ]
        if loops:
            _, loop = min((len(atoms), atoms) for atoms in loops)
            used = {
                name for edge, names in edges.items() if set(edge) <= set(loop) for name in names
            }
            yield Violation("C2", "the graph has a loop", tuple(sorted(used)), tuple(loop))


def _check_directions(graph: Graph) -> Iterator[Violation]:
    edges = graph.edges()
    for (first, second), users in edges.items():
        if first < second and (second, first) in edges:
            against = edges[second, first]
            yield Violation(
                "C3", "an edge is taken in both directions", (users[0], against[0]), (first, second)
            )


def _connected(overlaps: Sequence[Overlap]) -> list[list[Overlap]]:
    whole = nx.Graph([overlap.pair for overlap in overlaps])
    part_of = {
        group: number
        for number, part in enumerate(nx.connected_components(whole))
        for group in part
    }
    parts: dict[int, list[Overlap]] = {}
    for overlap in overlaps:
        parts.setdefault(part_of[overlap.pair[0]], []).append(overlap)
    return list(parts.values())


def _line(overlaps: Sequence[Overlap]) -> list[Pair]:
    """All atoms of a part in one order; atoms with the same subscribers are neighbours."""
    classes: dict[tuple[str, ...], list[Pair]] = {}
    for overlap in overlaps:
        classes.setdefault(tuple(sorted(overlap.members)), []).append(overlap.pair)
    blocks = list(classes.values())
    users = [sorted({name for pair in block for name in pair}) for block in blocks]
    orders = [list(range(len(blocks))), _banded(users)]
    best = min(orders, key=lambda order: _span(order, users, blocks))
    if len(blocks) <= _REFINED_MAX:
        best = _refined(best, users, blocks)
    return [pair for at in best for pair in blocks[at]]


def _banded(users: list[list[str]]) -> list[int]:
    """An order of classes in which those with common groups are near each other."""
    names = {name: at for at, name in enumerate(sorted({name for some in users for name in some}))}
    rows = [at for at, some in enumerate(users) for _ in some]
    columns = [names[name] for some in users for name in some]
    used = sparse.csr_matrix(
        (np.ones(len(rows), dtype=np.int32), (rows, columns)), shape=(len(users), len(names))
    )
    return [int(at) for at in reverse_cuthill_mckee((used @ used.T).tocsr(), symmetric_mode=True)]


def _span(order: Sequence[int], users: list[list[str]], blocks: list[list[Pair]]) -> int:
    """The number of atoms on all paths together, counted in whole classes."""
    start: dict[str, int] = {}
    end: dict[str, int] = {}
    passed = 0
    for at in order:
        for name in users[at]:
            start.setdefault(name, passed)
            end[name] = passed + len(blocks[at])
        passed += len(blocks[at])
    return sum(end[name] - start[name] for name in start)


def _refined(order: list[int], users: list[list[str]], blocks: list[list[Pair]]) -> list[int]:
    """Move single classes as long as the paths get shorter."""
    best, cost = order, _span(order, users, blocks)
    for _ in range(_PASSES_MAX):
        before = cost
        for block in range(len(order)):
            rest = [at for at in best if at != block]
            for place in range(len(order)):
                moved = [*rest[:place], block, *rest[place:]]
                moved_cost = _span(moved, users, blocks)
                if moved_cost < cost:
                    best, cost = moved, moved_cost
        if cost == before:
            break
    return best
