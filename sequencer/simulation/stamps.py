"""How many numbers messages carry, against a vector timestamp.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 4.4: the method is
attractive where a message collects fewer numbers than there are subscribers. Every member sends one
message to each of its groups, as in section 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sequencer.groups.network.graph import Graph, build, require
from sequencer.simulation.counts import Track
from sequencer.simulation.workload import Groups, names, occupied_groups, zipf_groups

BY_GROUPS = "groups"
BY_OCCUPANCY = "occupancy"


@dataclass(frozen=True, slots=True)
class Stamps:
    """Numbers of overlaps on a message: at the end of its path, and those that a receiver needs.

    Both are means over all messages, or deliveries, of all runs; `most` is the largest number on
    any message, `vector` the entries of a vector timestamp. `by` says what `at` is.
    """

    by: str
    at: float
    runs: int
    collected: float
    needed: float
    most: int
    vector: int


def count(graph: Graph, groups: Groups) -> tuple[float, float, int]:
    """Stamps on a message, those that its receiver needs (means over deliveries), and the most."""
    shared: dict[str, list[int]] = {group: [] for group in groups}
    for pair, members in graph.atoms.items():
        for group in pair:
            shared[group].append(len(members))
    size = {group: len(members) for group, members in groups.items()}
    messages = sum(size.values())
    deliveries = sum(members_count**2 for members_count in size.values())
    collected = sum(size[group] * len(overlap_sizes) for group, overlap_sizes in shared.items())
    # Each message of a group reaches all subscribers of each of the group's overlaps.
    needed = sum(size[group] * sum(overlap_sizes) for group, overlap_sizes in shared.items())
    most = max(map(len, shared.values()), default=0)
    return collected / max(messages, 1), needed / max(deliveries, 1), most


def figure(
    track: Track[tuple[str, float, int]],
    seed: int,
    *,
    runs: int = 20,
    subscribers: int = 128,
    counts: Sequence[int] = (8, 16, 32, 64, 128),
    occupancies: Sequence[float] = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0),
) -> list[Stamps]:
    """For some numbers of groups after Zipf, and for 32 groups of some occupancies."""
    members = names("H", subscribers)
    settings = [(BY_GROUPS, float(at)) for at in counts]
    settings += [(BY_OCCUPANCY, at) for at in occupancies]
    measured: dict[tuple[str, float], list[tuple[float, float, int]]] = {
        key: [] for key in settings
    }
    for by, at, run in track([(*key, run) for key in settings for run in range(runs)]):
        rng = np.random.default_rng([seed, 5, round(at * 1000), run])
        if by == BY_GROUPS:
            groups = zipf_groups(rng, members, int(at))
        else:
            groups = occupied_groups(rng, members, 32, at)
        measured[by, at].append(count(require(build(groups), groups), groups))
    return [
        Stamps(by, at, runs, float(one), float(two), max(row[2] for row in rows), subscribers)
        for (by, at), rows in measured.items()
        for one, two, _ in [np.mean(rows, axis=0)]
    ]
