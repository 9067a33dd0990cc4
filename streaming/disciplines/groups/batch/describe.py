"""What a shard knows of its subscribers, for people and programs."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from streaming.arrow.output import at
from streaming.disciplines.groups.batch.core import BatchCore

Overlap = tuple[str, str, int]


def describe(core: BatchCore) -> list[dict[str, Any]]:
    """A dictionary for each subscriber that ever got something, or is in a group.

    ``groups``: those that it is in. Nothing ever waits: `held` and `waiting` are there because the
    network has them. ``active``: when it got something last (RFC 3339). ``overlaps``: of its
    groups, with their next numbers.
    """
    shard = core.shard
    groups: dict[int, list[str]] = {}
    for name, group in sorted(shard.directory.groups.items()):
        for subscriber in group.members[shard.subscribers.mine[group.members]].tolist():
            groups.setdefault(subscriber, []).append(name)
    for subscriber in np.flatnonzero(shard.subscribers.born).tolist():
        groups.setdefault(subscriber, [])
    numbers = {(one, other): number for one, other, number in shard.overlaps()}
    known: dict[tuple[str, ...], list[Overlap]] = {(): []}
    described = []
    for subscriber, names in groups.items():
        if (there := tuple(names)) not in known:
            pairs = (pair for pair in combinations(there, 2) if pair in numbers)
            known[there] = [(*pair, numbers[pair]) for pair in pairs]
        born = bool(shard.subscribers.born[subscriber])
        described.append(
            {
                "subscriber": shard.directory.subscribers[subscriber],
                "groups": names,
                "overlaps": known[there],
                "sequence": int(shard.subscribers.sequence[subscriber]),
                "incarnation": int(shard.subscribers.incarnation[subscriber]) if born else None,
                "held": 0,
                "waiting": [],
                "active": at(int(shard.subscribers.last_ms[subscriber])) if born else None,
            }
        )
    return sorted(described, key=lambda fields: str(fields["subscriber"]))
