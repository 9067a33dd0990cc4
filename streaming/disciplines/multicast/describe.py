"""What a shard knows of its peers, for people and programs.

A dictionary for each peer. ``held``: messages in its queue. ``sending``: messages of its own that
are on their way. ``nodes``: those that it owns. ``handles``: nodes that it has a handle to.
``active``: when it took part last (RFC 3339).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sequencer.multicast import COUNTER
from streaming.arrow.key_text import key_to_json
from streaming.arrow.output import at
from streaming.disciplines.multicast.batched import BatchCore
from streaming.disciplines.multicast.nodes import Nodes, bare, latin, raw, shown
from streaming.disciplines.multicast.operator import MulticastCore


def of_batch(core: BatchCore) -> list[dict[str, Any]]:
    """The peers of a shard in the order of the batch: those that got anything."""
    owned, peers = _owned(core.nodes), core.peers
    names = {life.number: name for name, life in core.nodes.lives.items()}
    handles: dict[int, list[str]] = {}
    for row, node in zip(*(part.tolist() for part in core.holders.nodes_of()), strict=True):
        handles.setdefault(row, []).append(names[node])
    columns = (peers.sequence, peers.incarnation, peers.last_ms)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    counted = zip(peers.keys.to_pylist(), numbers, strict=True)
    return [
        _peer(latin(key), count, (0, 0), owned, handles.get(row, ()))
        for row, (key, count) in enumerate(counted)
    ]


def of_protocol(core: MulticastCore) -> list[dict[str, Any]]:
    """The peers and senders of a shard by clocks or by the counter."""
    owned = _owned(core.nodes)
    described = []
    for name in sorted(set(core.peers.texts) - {COUNTER}):
        core.peers.touch(name)
        count = core.peers.counts[name]
        party, line = core.peers.bus.parties.get(name), core.peers.bus.lines.get(name)
        held = () if party is None else party.held
        waiting = (len(core.peers.queued.get(name, ())), 0 if line is None else len(line.flying))
        numbers = (count.sequence, count.incarnation, count.last_ms)
        described.append(_peer(name, numbers, waiting, owned, map(bare, held)))
    return described


def _owned(nodes: Nodes) -> dict[str, list[str]]:
    owned: dict[str, list[str]] = {}
    for name, life in nodes.lives.items():
        if life.destroyed_ms < 0:
            owned.setdefault(life.owner, []).append(shown(name))
    return owned


def _peer(
    name: str,
    count: tuple[int, ...],
    waiting: tuple[int, int],
    owned: dict[str, list[str]],
    handles: Iterable[str],
) -> dict[str, Any]:
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
