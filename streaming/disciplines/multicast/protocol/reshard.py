"""Moving peers and senders to other shards, in the orders of clocks or the counter.

Only at rest: messages in flight are addressed to a shard by its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sequencer.multicast import COUNTER
from streaming.arrow.totals import Totals
from streaming.disciplines.exchange import is_deciding, with_new_links
from streaming.disciplines.multicast.nodes import Nodes
from streaming.disciplines.multicast.plan import MulticastPlan
from streaming.disciplines.multicast.protocol.core import MulticastCore, MulticastOperator
from streaming.disciplines.multicast.protocol.route import Homes
from streaming.disciplines.reshard import Resharded, ShardRow, counts_of, rekeyed, require_rest
from streaming.disciplines.state_keys import shard_keys
from streaming.disciplines.state_row import StateRow


def reshard(before: MulticastPlan, after: MulticastPlan, rows: Sequence[ShardRow]) -> Resharded:
    """Move each name to its shard by its hash; what all shards know stays."""
    if before.shards == after.shards or not rows:
        return rekeyed(before, after, rows)
    operator = MulticastOperator(before)
    cores: list[Any] = [operator.restored(key, state) for key, state in rows]
    waiting = sum(len(core.rows.ids) + len(core.placed) + len(core.peers.busy) for core in cores)
    require_rest(rows, waiting + sum(is_deciding(state) for _, state in rows))
    nodes = _nodes_of([core.nodes for core in cores])
    homes = Homes(after.shards)
    new_cores = [MulticastCore(after, number) for number in range(after.shards)]
    numbers = -(-max(core.next_id for core in cores) // after.shards) * after.shards
    for core in new_cores:
        core.next_id = core.first_waiting = numbers + core.shard
        core.nodes.load(nodes.dump())
        core.bus.floor = max(old.bus.floor for old in cores)
    for old in cores:
        for name, text in old.peers.texts.items():
            peers = new_cores[homes[name]].peers
            peers.texts[name], peers.last[name] = text, old.peers.last[name]
    totals = counts_of(Totals.from_json(state.totals) for _, state in rows)
    clock_ms = max(state.clock_ms for _, state in rows)
    keys = shard_keys(after.shards, after.state_partitions)
    found: list[ShardRow] = []
    for key, core in zip(keys, new_cores, strict=True):
        count = len(core.peers.texts) - (COUNTER in core.peers.texts)
        own = replace(totals if core.shard == 0 else Totals(), channels=count)
        found.append((key, StateRow(clock_ms, own.to_json(), with_new_links(core.dump()))))
    return Resharded(found, {})


def _nodes_of(lists: Sequence[Nodes]) -> Nodes:
    """Return the shards' common list of nodes; ValueError if their lists differ.

    Times of destruction may differ if the driver's clock was set back: a shard's clock never is.
    """
    first, *others = lists
    found = Nodes(first.remembered_ms, {n: replace(o) for n, o in first.lives.items()}, first.born)
    for nodes in others:
        if _known(nodes) != _known(found):
            raise ValueError("its shards do not know the same nodes")
        for name, life in found.lives.items():
            life.destroyed_ms = max(life.destroyed_ms, nodes.lives[name].destroyed_ms)
    return found


def _known(nodes: Nodes) -> Any:
    return nodes.born, {n: (o.id, o.owner, o.destroyed_ms < 0) for n, o in nodes.lives.items()}
