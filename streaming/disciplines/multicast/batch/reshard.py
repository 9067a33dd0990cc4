"""Peers moved to other shards, with the handles that they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.multicast.batch import Holders, Peers
from streaming.arrow.totals import Totals
from streaming.disciplines.multicast.batch.core import NUMBERS, BatchCore, BatchOperator
from streaming.disciplines.multicast.plan import BatchMulticastPlan
from streaming.disciplines.reshard import Resharded, ShardRow, counts_of
from streaming.disciplines.state_keys import shard_keys, shards_of
from streaming.disciplines.state_row import StateRow


def reshard(
    before: BatchMulticastPlan, after: BatchMulticastPlan, rows: Sequence[ShardRow]
) -> Resharded:
    """Each peer to its shard by the hash of its name; what all shards know stays."""
    if not rows:
        return Resharded([], {})
    operator = BatchOperator(before)
    cores: list[Any] = [operator.restored(key, state) for key, state in rows]
    if len({(core.clock, core.nodes.dump()) for core in cores}) > 1:
        raise ValueError("its shards do not know the same nodes")
    first = np.cumsum([0, *(len(core.peers) for core in cores)]).tolist()
    keys = pa.concat_arrays([core.peers.keys for core in cores])
    columns = [np.concatenate([getattr(core.peers, name) for core in cores]) for name in NUMBERS]
    pairs = [core.holders.nodes_of() for core in cores]
    holder = np.concatenate([row + at for (row, _), at in zip(pairs, first, strict=False)])
    node = np.concatenate([nodes for _, nodes in pairs])
    of = shards_of(keys, after.shards)
    totals = counts_of(Totals.from_json(state.totals) for _, state in rows)
    clock_ms = max(state.clock_ms for _, state in rows)
    found: list[ShardRow] = []
    for number, key in enumerate(shard_keys(after.shards, after.state_partitions)):
        mine = of == number
        core = BatchCore(after, number)
        core.clock = cores[0].clock
        core.nodes = cores[0].nodes
        core.peers = Peers(keys.filter(pa.array(mine)), *(column[mine] for column in columns))
        core.holders = Holders.of(np.zeros(0, np.int64))
        held = mine[holder]
        core.holders.add(node[held], (np.cumsum(mine) - 1)[holder[held]])
        own = replace(totals if number == 0 else Totals(), channels=len(core.peers))
        found.append((key, StateRow(clock_ms, own.to_json(), core.dump())))
    return Resharded(found, {})
