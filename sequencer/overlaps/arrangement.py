"""The order of all atoms: of several, the one whose best cuts into nodes have the fewest hops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from sequencer.overlaps.bags import TASTES, arranged
from sequencer.overlaps.cuts import Cuts, Floats, Ints, best_cuts, ends, hops

# Above this number of atoms the first way alone is tried, as each takes some seconds.
_ATOMS_COMPARED_MAX = 5_000
_SIZES_MAX = 10


@dataclass(frozen=True, slots=True)
class _Arrangement:
    lines: Sequence[Ints]
    cuts: Cuts
    load: float
    # What to have little of, the most important first.
    costs: tuple[float, ...]


def best_lines(
    pairs: Ints,
    kinds: Ints,
    weights: Floats,
    limit: float,
    nodes_max: int | None = None,
) -> Sequence[Ints]:
    """A line of atoms, shape (atoms, 2), for each part that is connected through groups.

    `pairs` are the atoms by the numbers of their groups, sorted; `kinds`, shape (atoms,), has one
    number for atoms with equal subscribers: they are neighbours on the line if they share a node.
    `weights` and `limit` as in `best_cuts`.
    Without `nodes_max` the mean number of hops counts, then nodes, then the length of paths; with
    it, once the load is about as low as it can be, the median of hops, the largest, the mean.
    """
    parts = _parts(pairs, len(weights))
    if not parts:
        return ()
    sizes = [limit] if nodes_max is None else _sizes(pairs, weights, limit, nodes_max)
    found = [
        _tried(parts, weights, limit, size, taste, nodes_max)
        for size in sizes
        for taste in _tastes(pairs)
    ]
    most = min(tried.cuts.limit for tried in found) * (1 + 1e-9)
    best = min((tried for tried in found if tried.load <= most), key=lambda tried: tried.costs)
    return _settled(best, pairs, kinds, len(weights))


def _settled(best: _Arrangement, pairs: Ints, kinds: Ints, groups: int) -> Sequence[Ints]:
    """The same atoms on each node, in an order that makes the paths short.

    First those of groups that end on the node, last those of groups that go on from it.
    """
    line = np.concatenate(best.lines)
    borders = np.cumsum([len(part) for part in best.lines])[:-1]
    stretch = np.searchsorted(np.union1d(best.cuts.at, borders), np.arange(len(line)), side="right")
    first, last = (stretch[place] for place in ends(line, groups))
    # Pairs are sorted, so their numbers can be looked up.
    row = np.searchsorted(pairs @ [groups, 1], line @ [groups, 1])
    later = (last[line] > stretch[:, None]).sum(1) - (first[line] < stretch[:, None]).sum(1)
    _, block, sizes = np.unique(
        stretch * len(pairs) + kinds[row], return_inverse=True, return_counts=True
    )
    score = (np.bincount(block, weights=later) / sizes)[block]
    order = np.lexsort((row, kinds[row], score, stretch))
    return np.split(line[order], borders)


def _tastes(pairs: Ints) -> range:
    return range(len(TASTES) if len(pairs) <= _ATOMS_COMPARED_MAX else 1)


def _sizes(pairs: Ints, weights: Floats, limit: float, nodes_max: int) -> list[float]:
    """Sizes of bags to try, from the limit of load up to all messages."""
    high = float(weights[np.unique(pairs)].sum())
    if limit <= 0 or high <= limit:
        return [limit]
    if len(pairs) > _ATOMS_COMPARED_MAX:
        # So many bags of this size cover all pairs of groups, if they do not overlap much.
        return [max(limit, high / nodes_max**0.5)]
    return [limit * (high / limit) ** (step / _SIZES_MAX) for step in range(_SIZES_MAX)]


def _tried(
    parts: Sequence[Ints],
    weights: Floats,
    limit: float,
    size: float,
    taste: int,
    nodes_max: int | None,
) -> _Arrangement:
    lines = []
    for part in parts:
        groups, local = np.unique(part, return_inverse=True)
        line = arranged(local.reshape(part.shape), weights[groups], size, TASTES[taste])
        lines.append(groups[line])
    whole = np.concatenate(lines)
    cuts = best_cuts(whole, weights, limit, nodes_max)
    passed = hops(whole, cuts, len(weights)).astype(np.float64)
    first, last = ends(whole, len(weights))
    mean, length = float(passed @ weights), float((last - first).sum())
    used = np.unique(whole)
    costs = (
        (mean, float(len(cuts.at)), length)
        if nodes_max is None
        else (_median(passed[used], weights[used]), float(passed.max()), mean, length)
    )
    return _Arrangement(lines, cuts, _heaviest(whole, weights, cuts), costs)


def _median(values: Floats, weights: Floats) -> float:
    """The weighted median: half of the messages have this value or a smaller one."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order[int(np.searchsorted(total, total[-1] / 2))]])


def _heaviest(line: Ints, weights: Floats, cuts: Cuts) -> float:
    """The load of the stretch that orders most."""
    return max(float(weights[np.unique(part)].sum()) for part in np.split(line, cuts.at))


def _parts(pairs: Ints, groups: int) -> list[Ints]:
    """The atoms of each connected part, by the part's first group."""
    if not len(pairs):
        return []
    joined = sparse.csr_matrix(
        (np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=(groups, groups)
    )
    _, labels = connected_components(joined, directed=False)
    part = labels[pairs[:, 0]]
    order = np.argsort(part, kind="stable")
    starts = np.flatnonzero(np.diff(part[order])) + 1
    return sorted(np.split(pairs[order], starts), key=lambda some: int(some.min()))
