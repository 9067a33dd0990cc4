"""What a shard knows of its peers, for people and programs."""

from __future__ import annotations

from typing import Any

from sequencer.multicast import COUNTER
from sequencer.multicast.clock_peer import Peer
from streaming.arrow.output import at
from streaming.disciplines.multicast.nodes import bare, shown
from streaming.disciplines.multicast.operator import MulticastCore


def describe(core: MulticastCore) -> list[dict[str, Any]]:
    """A dictionary for each peer.

    ``held``: messages in its queue. ``sending``: messages of its own that are on their way.
    ``nodes``: those that it owns. ``handles``: nodes that it has a handle to. ``active``: when it
    took part last (RFC 3339).
    """
    owned: dict[str, list[str]] = {}
    for name, life in core.nodes.lives.items():
        if life.destroyed_ms < 0:
            owned.setdefault(life.owner, []).append(shown(name))
    found = []
    for name in sorted(set(core.peers.texts) - {COUNTER}):
        core.peers.touch(name)
        count = core.peers.counts[name]
        party, line = core.peers.bus.parties.get(name), core.peers.bus.lines.get(name)
        held = party.handles.held if isinstance(party, Peer) else getattr(party, "held", ())
        found.append(
            {
                "peer": shown(name),
                "sequence": count.sequence,
                "incarnation": count.incarnation,
                "held": len(core.peers.queued.get(name, ())),
                "sending": 0 if line is None else len(line.flying),
                "nodes": sorted(owned.get(name, ())),
                "handles": sorted(shown(bare(node)) for node in held),
                "active": at(count.last_ms),
            }
        )
    return found
