"""Trees of sequencing nodes, looked for by annealing: can any have fewer hops than a line?

A tree of nodes with one direction for each edge, and for each node a *bag* of groups whose messages
it orders. It will do if every pair of groups that needs an order is in one bag together, no bag has
more messages than the limit, and the bags of each group lie on one directed path (C1 to C3). The
search begins with the line that graph.build makes, puts groups into bags and takes them out, hangs
parts of the tree elsewhere and turns edges round; what breaks a rule costs more and more.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from sequencer.groups.network.graph import Graph
from sequencer.groups.network.overlaps import Pair
from sequencer.simulation.topology import Floats, Ints

Edges = tuple[tuple[int, int], ...]

# From the first step to the last: what it costs to break a rule. A pair in no bag: hops of the
# lighter of its groups; a node above the limit, or a group off a path: hops of all messages.
_PAIR, _OVER, _OFF = (1.0, 3.0), (2.0, 6.0), (0.3, 1.0)
# Of the mean weight of a group.
_HOT, _COLD = 0.1, 0.01
_TREE_MOVES = 0.03
_SHIFTS = 0.4


class Tree:
    """Nodes 0 ... `count` - 1 and directed edges that join them without a loop."""

    def __init__(self, count: int, edges: Edges) -> None:
        self.count, self.edges = count, edges
        out: list[list[int]] = [[] for _ in range(count)]
        for first, second in edges:
            out[first].append(second)
        self.out = out
        self._after = [self._reached(node) for node in range(count)]
        self._before = [
            sum(1 << first for first in range(count) if self._after[first] >> node & 1)
            for node in range(count)
        ]
        self._spans: dict[int, int | None] = {}

    def _reached(self, node: int) -> int:
        reached = 1 << node
        for following in self.out[node]:
            reached |= self._reached(following)
        return reached

    def span(self, mask: int) -> int | None:
        """The nodes of the directed path through some nodes, as bits; None if there is none."""
        if mask not in self._spans:
            inside = [node for node in range(self.count) if mask >> node & 1]
            first = next((n for n in inside if not mask & ~self._after[n]), None)
            last = next((n for n in inside if not mask & ~self._before[n]), None)
            both = first is not None and last is not None
            self._spans[mask] = self._after[first] & self._before[last] if both else None  # type: ignore[index]
        return self._spans[mask]

    def path(self, mask: int) -> list[int]:
        """The nodes of that path in its direction. ValueError if there is none."""
        span = self.span(mask)
        if span is None:
            raise ValueError(f"no directed path leads through the nodes {mask:b}")
        inside = [node for node in range(self.count) if span >> node & 1]
        return sorted(inside, key=lambda node: -(self._after[node] & span).bit_count())

    def changed(self, rng: np.random.Generator) -> Tree:
        """A tree with an edge turned round, or with a part of it hung elsewhere."""
        at = int(rng.integers(len(self.edges)))
        first, second = self.edges[at]
        rest = self.edges[:at] + self.edges[at + 1 :]
        if rng.random() < 0.3:
            return Tree(self.count, (*rest, (second, first)))
        part, waiting = {first}, [first]
        while waiting:
            node = waiting.pop()
            near = {b if a == node else a for a, b in rest if node in (a, b)} - part
            part |= near
            waiting += near
        one = int(rng.choice(sorted(part)))
        other = int(rng.choice(sorted(set(range(self.count)) - part)))
        return Tree(self.count, (*rest, (one, other) if rng.random() < 0.5 else (other, one)))


@dataclass(slots=True)
class _Search:
    """`needed`: groups x groups, for pairs that need an order the lighter weight, else 0; `masks`:
    the nodes of each group; `together`: groups x groups, in how many bags both are.
    """

    needed: Floats
    weights: list[float]
    limit: float
    tree: Tree
    masks: list[int]
    together: Ints = field(init=False)
    loads: list[float] = field(init=False)

    def __post_init__(self) -> None:
        inside = self.inside()
        self.together = inside.T @ inside
        self.loads = (inside @ np.array(self.weights)).tolist()

    def inside(self) -> Ints:
        """Nodes x groups."""
        nodes = range(self.tree.count)
        return np.array([[mask >> node & 1 for mask in self.masks] for node in nodes])

    def hops(self, tree: Tree, masks: list[int], off: float) -> float:
        """Nodes passed, over all messages; a group without a path counts all of them and `off`."""
        return sum(self.passed(tree, at, mask, off) for at, mask in enumerate(masks))

    def passed(self, tree: Tree, at: int, mask: int, off: float) -> float:
        """As `hops`, of one group."""
        span = tree.span(mask)
        if span is None:
            return self.weights[at] * tree.count + off * sum(self.weights)
        return self.weights[at] * span.bit_count()

    def over(self, loads: list[float]) -> float:
        """How much the nodes order above the limit, as a share of it."""
        return sum(max(0.0, load - self.limit * (1 + 1e-9)) for load in loads) / self.limit

    def fits(self) -> bool:
        """Return whether no rule is broken."""
        paths = None not in map(self.tree.span, self.masks)
        return paths and not self.over(self.loads) and not self.needed[self.together == 0].any()


def annealed(
    pairs: Collection[Pair],
    weights: Mapping[str, float],
    bags: list[set[str]],
    limit: float,
    rng: np.random.Generator,
    steps: int,
) -> tuple[Tree, list[set[str]]]:
    """The tree and bags with the fewest hops that were found, from a line of bags on."""
    names = sorted({name for pair in pairs for name in pair})
    number = {name: at for at, name in enumerate(names)}
    needed = np.zeros((len(names), len(names)))
    for one, other in pairs:
        at = ([number[one], number[other]], [number[other], number[one]])
        needed[at] = min(weights[one], weights[other])
    masks = [sum(1 << at for at, bag in enumerate(bags) if name in bag) for name in names]
    line = Tree(len(bags), tuple((at, at + 1) for at in range(len(bags) - 1)))
    search = _Search(needed, [weights[name] for name in names], limit, line, masks)
    tree, seen = _run(search, rng, steps)
    inside = [{name for name, mask in zip(names, seen, strict=True) if mask >> n & 1}
              for n in range(tree.count)]  # fmt: skip
    return tree, inside


def _run(search: _Search, rng: np.random.Generator, steps: int) -> tuple[Tree, list[int]]:
    total = sum(search.weights)
    best = (search.hops(search.tree, search.masks, 0), search.tree, list(search.masks))
    for step in range(steps):
        done = step / steps
        pair, over, off = (low + (high - low) * done for low, high in (_PAIR, _OVER, _OFF))
        heat = (_HOT * (1 - done) ** 2 + _COLD) * total / len(search.masks)
        if len(search.tree.edges) and rng.random() < _TREE_MOVES:
            tree = search.tree.changed(rng)
            rise = search.hops(tree, search.masks, off)
            rise -= search.hops(search.tree, search.masks, off)
            if rise > 0 and rng.random() >= math.exp(-rise / heat):
                continue
            search.tree = tree
        elif not _moved(search, rng, pair, over * total, off, heat):
            continue
        hops = search.hops(search.tree, search.masks, off)
        if hops < best[0] * (1 - 1e-9) and search.fits():
            best = (hops, search.tree, list(search.masks))
    return best[1], best[2]


def _moved(
    search: _Search, rng: np.random.Generator, pair: float, over: float, off: float, heat: float
) -> bool:
    """Put a group into a bag, out of one, or both; False if it stays as it was."""
    at, nodes = int(rng.integers(len(search.masks))), [int(rng.integers(search.tree.count))]
    if rng.random() < _SHIFTS:
        nodes.append(int(rng.integers(search.tree.count)))
    mask, row, loads = search.masks[at], search.together[at].copy(), list(search.loads)
    for node in nodes:
        sign = -1 if mask >> node & 1 else 1
        mask ^= 1 << node
        loads[node] += sign * search.weights[at]
        row += sign * np.array([other >> node & 1 for other in search.masks])
    if not mask or mask == search.masks[at]:
        return False
    needed = search.needed[at]
    missing = float(needed[row == 0].sum() - needed[search.together[at] == 0].sum())
    rise = missing * pair + (search.over(loads) - search.over(search.loads)) * over
    rise += search.passed(search.tree, at, mask, off)
    rise -= search.passed(search.tree, at, search.masks[at], off)
    if rise > 0 and rng.random() >= math.exp(-rise / heat):
        return False
    search.masks[at], search.loads = mask, loads
    search.together[at] = search.together[:, at] = row
    return True


def graph_of(
    atoms: Mapping[Pair, frozenset[str]], groups: Collection[str], tree: Tree, bags: list[set[str]]
) -> tuple[Graph, dict[Pair, int]]:
    """The graph of atoms on such a tree, and the node of each: in a node they stand on a line."""
    nodes = {
        pair: next(at for at, bag in enumerate(bags) if bag.issuperset(pair)) for pair in atoms
    }
    lines: list[list[Pair]] = [[] for _ in bags]
    for pair in sorted(atoms):
        lines[nodes[pair]].append(pair)
    paths: dict[str, tuple[Pair, ...]] = dict.fromkeys(groups, ())
    for group in groups:
        stamping = [pair for pair in atoms if group in pair]
        if stamping:
            mask = sum(1 << node for node in {nodes[pair] for pair in stamping})
            passed = [pair for node in tree.path(mask) for pair in lines[node]]
            places = [at for at, pair in enumerate(passed) if group in pair]
            paths[group] = tuple(passed[places[0] : places[-1] + 1])
    return Graph(atoms, paths), nodes
