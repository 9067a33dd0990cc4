"""What a shard by clocks or by the counter knows of its peers, for people and programs."""

from __future__ import annotations

from typing import Any

from sequencer.multicast import COUNTER
from streaming.disciplines.multicast.describe import owned_nodes, peer
from streaming.disciplines.multicast.nodes import bare
from streaming.disciplines.multicast.protocol.core import MulticastCore


def describe(core: MulticastCore) -> list[dict[str, Any]]:
    """The peers and senders of a shard by clocks or by the counter."""
    owned = owned_nodes(core.nodes)
    described = []
    for name in sorted(set(core.peers.texts) - {COUNTER}):
        core.peers.touch(name)
        count = core.peers.counts[name]
        party, line = core.peers.bus.parties.get(name), core.peers.bus.lines.get(name)
        held = () if party is None else party.held
        waiting = (len(core.peers.queued.get(name, ())), 0 if line is None else len(line.flying))
        numbers = (count.sequence, count.incarnation, count.last_ms)
        described.append(peer(name, numbers, waiting, owned, map(bare, held)))
    return described
