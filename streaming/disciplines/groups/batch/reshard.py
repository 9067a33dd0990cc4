"""Subscribers moved to other shards; all shards know the same groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.groups.batch.subscribers import UNBORN, Subscribers
from streaming.arrow.ipc import to_line
from streaming.arrow.totals import Totals
from streaming.disciplines.groups.batch import codec
from streaming.disciplines.groups.batch.core import BatchCore, BatchOperator
from streaming.disciplines.groups.plan import BatchPlan
from streaming.disciplines.reshard import Resharded, ShardRow, counts_of
from streaming.disciplines.state_keys import shard_keys, shards_of
from streaming.disciplines.state_row import StateRow


def reshard(before: BatchPlan, after: BatchPlan, rows: Sequence[ShardRow]) -> Resharded:
    """What is counted of each subscriber goes to its new shard.

    Shards forget subscribers of others that are in no group, so that each subscriber is looked for
    in all of them. ValueError where they do not know the same groups.
    """
    if not rows:
        return Resharded([], {})
    operator = BatchOperator(before)
    cores: list[Any] = [operator.restored(key, state) for key, state in rows]
    if any(_groups(core) != _groups(cores[0]) for core in cores):
        raise ValueError("its shards do not know the same groups")
    counted = _counted(cores)
    pattern = cores[0].shard.directory
    added = sorted(counted.keys() - set(pattern.subscribers))
    names = [*pattern.subscribers, *added]
    directory = replace(pattern, subscribers=names, places={})
    data = codec.encode_directory(directory, cores[0].first) if added else cores[0].known[0]
    numbers = [counted.get(name, (0, UNBORN, 0)) for name in names]
    columns = np.array(numbers, np.int64).reshape(len(names), 3).T
    of = shards_of(pa.array([name.encode() for name in names], pa.binary()), after.shards)
    totals = counts_of(Totals.from_json(state.totals) for _, state in rows)
    clock_ms = max(state.clock_ms for _, state in rows)
    found: list[ShardRow] = []
    for number, key in enumerate(shard_keys(after.shards, after.state_partitions)):
        subscribers = Subscribers(of == number, *columns)
        state = codec.encode(data, directory, subscribers)
        own = replace(
            totals if number == 0 else Totals(),
            channels=int((subscribers.born & subscribers.mine).sum()),
        )
        found.append((key, StateRow(clock_ms, own.to_json(), to_line(state))))
    return Resharded(found, {})


def _counted(cores: Iterable[BatchCore]) -> dict[str, tuple[int, int, int]]:
    """What is counted of each subscriber that got anything, by the shard whose it is."""
    found = {}
    for core in cores:
        own, names = core.shard.subscribers, core.shard.directory.subscribers
        for at in np.flatnonzero(own.mine & own.born).tolist():
            values = (own.sequence[at], own.incarnation[at], own.last_ms[at])
            found[names[at]] = (int(values[0]), int(values[1]), int(values[2]))
    return found


def _groups(core: BatchCore) -> dict[str, Any]:
    """The groups with their members and numbers, by name."""
    directory = core.shard.directory
    return {
        name: (
            sorted(directory.subscribers[each] for each in group.members.tolist()),
            *(int(column[group.number]) for column in _numbers(core)),
        )
        for name, group in directory.groups.items()
    }


def _numbers(core: BatchCore) -> tuple[Any, Any, Any]:
    directory = core.shard.directory
    return directory.version, directory.count, directory.start
