"""What a shard knows of its subscribers, for people and programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaming.arrow.output import at
from streaming.disciplines.groups.batch.operator import BatchCore


def describe(core: BatchCore) -> list[dict[str, Any]]:
    """A dictionary for each subscriber that ever got something, or is in a group.

    ``groups``: those that it is in. Nothing ever waits: `held` and `waiting` are there because the
    network has them. ``active``: when it got something last (RFC 3339).
    """
    shard = core.shard
    groups: dict[int, list[str]] = {}
    for name, group in sorted(shard.directory.groups.items()):
        for subscriber in group.members[shard.subscribers.mine[group.members]].tolist():
            groups.setdefault(subscriber, []).append(name)
    for subscriber in np.flatnonzero(shard.subscribers.born).tolist():
        groups.setdefault(subscriber, [])
    described = []
    for subscriber, names in groups.items():
        born = bool(shard.subscribers.born[subscriber])
        described.append(
            {
                "subscriber": shard.directory.subscribers[subscriber],
                "groups": names,
                "sequence": int(shard.subscribers.sequence[subscriber]),
                "incarnation": int(shard.subscribers.incarnation[subscriber]) if born else None,
                "held": 0,
                "waiting": [],
                "active": at(int(shard.subscribers.last_ms[subscriber])) if born else None,
            }
        )
    return sorted(described, key=lambda fields: str(fields["subscriber"]))
