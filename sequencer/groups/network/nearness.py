"""Where in the network the sequencing nodes stand: near their senders, receivers and each other.

"Decentralized Message Ordering for Publish/Subscribe Systems", section 3.3, leaves this to
heuristics. Here it is a search: what all deliveries together wait for is a sum over single nodes
and over pairs of nodes that follow one another, so one node after the other is moved to the site
that is best for it while the others stay, until none moves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_SWEEPS_MAX = 30


@dataclass(frozen=True, slots=True)
class Sites:
    """Places for nodes. `apart`: sites x sites; `away`: subscriber -> its distance to each site.

    Distances are in one unit of time, from anywhere to anywhere the same in both directions.
    """

    apart: Floats
    away: Mapping[str, Floats]


def near(
    paths: Mapping[str, Sequence[int]],
    members: Mapping[str, Collection[str]],
    sites: Sites,
    urgency: Mapping[str, float] | None = None,
    *,
    nodes_per_site: int = 1,
) -> dict[int, int]:
    """A site for each node on the paths, and the same one for equal arguments.

    `paths`: group -> the nodes that its messages pass, none of them empty; every member sends to
    its group, and receives. A delivery counts as many times as its receiver's `urgency` says (1 if
    not given): 1 / (its mean direct delay) makes the sum a sum of latency stretches. At most
    `nodes_per_site` nodes come to one site; ValueError if the sites are too few for that.
    """
    nodes = sorted({node for path in paths.values() for node in path})
    count = len(sites.apart)
    if count * nodes_per_site < len(nodes):
        raise ValueError(
            f"{len(nodes)} nodes do not fit on {count} sites of {nodes_per_site}: nothing was "
            "placed; give more sites"
        )
    if not nodes:
        return {}
    ends, between = _costs(nodes, paths, members, sites, urgency)
    starts = (
        ends,  # each near its own subscribers
        np.broadcast_to(ends.sum(axis=0), ends.shape),  # all near all of them
    )
    settled = [_settled(start, ends, between, sites.apart, nodes_per_site) for start in starts]
    best = min(settled, key=lambda at: _total(at, ends, between, sites.apart))
    return dict(zip(nodes, best.tolist(), strict=True))


def _costs(
    nodes: list[int],
    paths: Mapping[str, Sequence[int]],
    members: Mapping[str, Collection[str]],
    sites: Sites,
    urgency: Mapping[str, float] | None,
) -> tuple[Floats, Floats]:
    """Nodes x sites: what the ways from senders and to receivers cost; nodes x nodes: how often."""
    row = {node: at for at, node in enumerate(nodes)}
    ends = np.zeros((len(nodes), len(sites.apart)))
    between = np.zeros((len(nodes), len(nodes)))
    for group, path in sorted(paths.items()):
        receivers = sorted(members[group])
        if not receivers:
            continue
        away = np.array([sites.away[name] for name in receivers])
        urgent = np.array([1.0 if urgency is None else urgency[name] for name in receivers])
        ends[row[path[0]]] += urgent.sum() * away.sum(axis=0)
        ends[row[path[-1]]] += len(receivers) * (urgent @ away)
        for first, second in pairwise(path):
            between[row[first], row[second]] += urgent.sum() * len(receivers)
            between[row[second], row[first]] += urgent.sum() * len(receivers)
    return ends, between


def _settled(start: Floats, ends: Floats, between: Floats, apart: Floats, room: int) -> Ints:
    """The site of each node when no move of a single one is of use."""
    taken = np.zeros(len(apart), dtype=np.int64)
    at = np.zeros(len(ends), dtype=np.int64)
    # The node with most to lose chooses first.
    for node in np.argsort(-(ends.mean(axis=1) + between.sum(axis=1)), kind="stable"):
        at[node] = int(np.argmin(np.where(taken < room, start[node], np.inf)))
        taken[at[node]] += 1
    for _ in range(_SWEEPS_MAX):
        moved = False
        for node in range(len(ends)):
            cost = ends[node] + between[node] @ apart[at]
            taken[at[node]] -= 1
            free = np.where(taken < room, cost, np.inf)
            best = int(np.argmin(free))
            if free[best] < cost[at[node]] * (1 - 1e-12):
                at[node] = best
                moved = True
            taken[at[node]] += 1
        if not moved:
            break
    return at


def _total(at: Ints, ends: Floats, between: Floats, apart: Floats) -> float:
    outward = ends[np.arange(len(at)), at].sum()
    return float(outward + (between * apart[np.ix_(at, at)]).sum() / 2)
