"""Figures 3 and 4: how many overlaps and sequencing nodes there are.

"Decentralized Message Ordering for Publish/Subscribe Systems", sections 4.3 and 4.4. Nodes that are
an ingress and nothing else are not counted, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from sequencer.groups.network.overlaps import double_overlaps
from sequencer.simulation.plan import assign
from sequencer.simulation.workload import Groups, names, occupied_groups, zipf_groups

Job = TypeVar("Job")
Track = Callable[[Sequence[Job]], Iterable[Job]]

GROUP_COUNTS = (1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64)
OCCUPANCIES = (0.0, 0.02, *(round(0.05 * step, 2) for step in range(1, 21)))


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean, 10th and 90th percentile of some runs."""

    mean: float
    p10: float
    p90: float


@dataclass(frozen=True, slots=True)
class Counted:
    """At one setting (`at`: number of groups, or occupancy): double overlaps, atoms, nodes, hops.

    Atoms are more than double overlaps by the single ones that need an order (overlaps.py); the
    paper has atoms for double overlaps alone, and `paper_nodes` are the nodes of such a graph.
    `hops` are the nodes that a message passes, the mean over all messages.
    """

    at: float
    runs: int
    overlaps: Spread
    atoms: Spread
    nodes: Spread
    paper_nodes: Spread
    hops: Spread


def by_groups(
    track: Track[tuple[float, int]],
    seed: int,
    *,
    runs: int = 100,
    subscribers: int = 128,
    counts: Sequence[int] = GROUP_COUNTS,
) -> list[Counted]:
    """Figure 3: groups with sizes after Zipf, for several numbers of groups."""
    members = names("H", subscribers)

    def drawn(at: float, rng: np.random.Generator) -> Groups:
        return zipf_groups(rng, members, int(at))

    return _counted(track, (seed, 3), drawn, counts, runs)


def by_occupancy(
    track: Track[tuple[float, int]],
    seed: int,
    *,
    runs: int = 20,
    subscribers: int = 128,
    groups: int = 32,
    occupancies: Sequence[float] = OCCUPANCIES,
) -> list[Counted]:
    """Figure 4: every subscriber is in every group with the same probability."""
    members = names("H", subscribers)

    def drawn(at: float, rng: np.random.Generator) -> Groups:
        return occupied_groups(rng, members, groups, at)

    return _counted(track, (seed, 4), drawn, occupancies, runs)


def spread(values: Sequence[float]) -> Spread:
    """Mean, 10th and 90th percentile."""
    low, high = np.percentile(values, [10, 90])
    return Spread(float(np.mean(values)), float(low), float(high))


def _counted(
    track: Track[tuple[float, int]],
    seeds: tuple[int, int],
    drawn: Callable[[float, np.random.Generator], Groups],
    settings: Sequence[float],
    runs: int,
) -> list[Counted]:
    measured: dict[float, list[tuple[float, ...]]] = {at: [] for at in settings}
    for at, run in track([(at, run) for at in settings for run in range(runs)]):
        groups = drawn(at, np.random.default_rng([*seeds, round(at * 1000), run]))
        measured[at].append(_count(groups))
    return [
        Counted(at, runs, *(spread(column) for column in zip(*rows, strict=True)))
        for at, rows in measured.items()
    ]


def _count(groups: Groups) -> tuple[float, ...]:
    double = double_overlaps(groups)
    graph, nodes, paths = assign(groups)
    _, paper_nodes, _ = assign(groups, double)
    messages = sum(len(groups[group]) for group in paths)
    hops = sum(len(groups[group]) * max(1, len(path)) for group, path in paths.items())
    return (
        float(len(double)),
        float(len(graph.atoms)),
        float(len(set(nodes.values()))),
        float(len(set(paper_nodes.values()))),
        hops / messages if messages else 0.0,
    )
