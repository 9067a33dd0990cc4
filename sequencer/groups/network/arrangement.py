"""The order of all atoms: of several, the one whose best cuts into nodes have the fewest hops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sequencer.groups.network.bags import TASTES, Taste, arranged
from sequencer.groups.network.cuts import Cuts, Floats, Ints, best_cuts, ends, hops
from sequencer.groups.network.parts import connected

# Above this number of atoms the first way alone is tried, as each takes some seconds.
_ATOMS_COMPARED_MAX = 5_000
_SIZES_MAX = 10


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be arranged, for which nodes; groups are numbers.

    `pairs` are the atoms, shape (atoms, 2), sorted; `kinds`, shape (atoms,), has one number for
    atoms with equal subscribers: they are neighbours on the line if they share a node. `weights`
    (messages by group), `limit` and `nodes_max` are those of `cuts.best_cuts`.
    """

    pairs: Ints
    kinds: Ints
    weights: Floats
    limit: float
    nodes_max: int | None = None


@dataclass(frozen=True, slots=True)
class _Arrangement:
    lines: Sequence[Ints]
    cuts: Cuts
    load: float
    # What to have little of, the most important first.
    costs: tuple[float, ...]


def best_lines(wanted: Wanted) -> Sequence[Ints]:
    """A line of atoms, shape (atoms, 2), for each part that is connected through groups.

    Without `nodes_max` the mean number of hops counts, then nodes, then the length of paths; with
    it, once the load is about as low as it can be, the median of hops, the largest, the mean.
    """
    parts = _parts(wanted.pairs, len(wanted.weights))
    if not parts:
        return ()
    compared = len(wanted.pairs) <= _ATOMS_COMPARED_MAX
    candidates = [
        _judged(_in_bags(parts, wanted.weights, size, taste), wanted)
        for size in _sizes(wanted, compared=compared)
        for taste in (TASTES if compared else TASTES[:1])
    ]
    if wanted.nodes_max is not None and compared:
        # The least load depends on the order on each node, so what is settled is judged.
        candidates = [_judged(_settled(tried, wanted), wanted) for tried in candidates]
    most = min(tried.cuts.limit for tried in candidates) * (1 + 1e-9)
    best = min((tried for tried in candidates if tried.load <= most), key=lambda tried: tried.costs)
    return best.lines if wanted.nodes_max is not None and compared else _settled(best, wanted)


def _sizes(wanted: Wanted, *, compared: bool) -> list[float]:
    """Sizes of bags to try, from the limit of load up to all messages."""
    limit, high = wanted.limit, float(wanted.weights[np.unique(wanted.pairs)].sum())
    if wanted.nodes_max is None or limit <= 0 or high <= limit:
        return [limit]
    if not compared:
        # This many bags of this size cover all pairs of groups, if they have few in common.
        return [max(limit, high / wanted.nodes_max**0.5)]
    return [limit * (high / limit) ** (step / _SIZES_MAX) for step in range(_SIZES_MAX)]


def _in_bags(parts: Sequence[Ints], weights: Floats, size: float, taste: Taste) -> list[Ints]:
    lines = []
    for part in parts:
        groups, local = np.unique(part, return_inverse=True)
        line = arranged(local.reshape(part.shape), weights[groups], size, taste)
        lines.append(groups[line])
    return lines


def _judged(lines: Sequence[Ints], wanted: Wanted) -> _Arrangement:
    whole, weights = np.concatenate(lines), wanted.weights
    cuts = best_cuts(whole, weights, wanted.limit, wanted.nodes_max)
    passed = hops(whole, cuts, len(weights))
    first, last = ends(whole, len(weights))
    mean, length = float(passed @ weights), float((last - first).sum())
    used = np.unique(whole)
    costs = (
        (mean, float(len(cuts.at)), length)
        if wanted.nodes_max is None
        else (_median(passed[used], weights[used]), float(passed.max()), mean, length)
    )
    load = max(float(weights[np.unique(part)].sum()) for part in np.split(whole, cuts.at))
    return _Arrangement(lines, cuts, load, costs)


def _settled(tried: _Arrangement, wanted: Wanted) -> Sequence[Ints]:
    """The same atoms on each node, in an order that makes the paths short.

    First those of groups that end on the node, last those of groups that go on from it.
    """
    pairs, kinds, groups = wanted.pairs, wanted.kinds, len(wanted.weights)
    line = np.concatenate(tried.lines)
    borders = np.cumsum([len(part) for part in tried.lines])[:-1]
    starts = np.union1d(tried.cuts.at, borders)
    stretch = np.searchsorted(starts, np.arange(len(line)), side="right")
    first, last = (stretch[index] for index in ends(line, groups))
    # Pairs are sorted, so their numbers can be looked up.
    row = np.searchsorted(pairs @ [groups, 1], line @ [groups, 1])
    later = (last[line] > stretch[:, None]).sum(1) - (first[line] < stretch[:, None]).sum(1)
    _, block, sizes = np.unique(
        stretch * len(pairs) + kinds[row], return_inverse=True, return_counts=True
    )
    score = (np.bincount(block, weights=later) / sizes)[block]
    order = np.lexsort((row, kinds[row], score, stretch))
    return np.split(line[order], borders)


def _median(values: Ints, weights: Floats) -> float:
    """The weighted median: half of the messages have this value or a smaller one."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order[int(np.searchsorted(total, total[-1] / 2))]])


def _parts(pairs: Ints, groups: int) -> list[Ints]:
    """The atoms of each connected part, by the part's first group."""
    if not len(pairs):
        return []
    labels = np.array(connected(groups, zip(*pairs.T.tolist(), strict=True)))
    part = labels[pairs[:, 0]]
    order = np.argsort(part, kind="stable")
    starts = np.flatnonzero(np.diff(part[order])) + 1
    return sorted(
        np.split(pairs[order], starts), key=lambda pairs_of_part: int(pairs_of_part.min())
    )
