"""What a shard knows of its peers, for people and programs.

A dictionary for each peer. ``held``: messages in its queue. ``sending``: messages of its own that
are on their way. ``nodes``: those that it owns. ``handles``: nodes that it has a handle to.
``active``: when it took part last (RFC 3339).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streaming.arrow.key_text import key_to_json
from streaming.arrow.output import at
from streaming.disciplines.multicast.nodes import Nodes, raw, shown


def owned_nodes(nodes: Nodes) -> dict[str, list[str]]:
    """Return the names of the nodes that each peer owns."""
    owned: dict[str, list[str]] = {}
    for name, life in nodes.lives.items():
        if life.destroyed_ms < 0:
            owned.setdefault(life.owner, []).append(shown(name))
    return owned


def peer(
    name: str,
    count: tuple[int, ...],
    waiting: tuple[int, int],
    owned: dict[str, list[str]],
    handles: Iterable[str],
) -> dict[str, Any]:
    """Return what is known of a peer; ``waiting``: messages held, and being sent."""
    sequence, incarnation, last_ms = count
    held, sending = waiting
    return {
        "peer": key_to_json(raw(name)),
        "sequence": sequence,
        "incarnation": incarnation,
        "held": held,
        "sending": sending,
        "nodes": sorted(owned.get(name, ())),
        "handles": sorted(map(shown, handles)),
        "active": at(last_ms),
    }
