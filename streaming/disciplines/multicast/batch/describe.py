"""What a shard in the order of the batch knows of its peers, for people and programs."""

from __future__ import annotations

from typing import Any

from streaming.disciplines.multicast.batch.core import BatchCore
from streaming.disciplines.multicast.describe import owned_nodes, peer
from streaming.disciplines.multicast.nodes import latin


def describe(core: BatchCore) -> list[dict[str, Any]]:
    """The peers of a shard in the order of the batch: those that got anything."""
    owned, peers = owned_nodes(core.nodes), core.peers
    names = {life.number: name for name, life in core.nodes.lives.items()}
    handles: dict[int, list[str]] = {}
    for row, node in zip(*(part.tolist() for part in core.holders.nodes_of()), strict=True):
        handles.setdefault(row, []).append(names[node])
    columns = (peers.sequence, peers.incarnation, peers.last_ms)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    counted = zip(peers.keys.to_pylist(), numbers, strict=True)
    return [
        peer(latin(key), count, (0, 0), owned, handles.get(row, ()))
        for row, (key, count) in enumerate(counted)
    ]
