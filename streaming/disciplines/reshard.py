"""State moved to other shards: what all disciplines share.

A `Reshard` takes the states of all shards of a pipeline, each with the shard's key, and gives those
under another plan. Every channel, subscriber and peer keeps what is known of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streaming.arrow.totals import Totals
from streaming.disciplines.plan import Plan
from streaming.disciplines.state_keys import shard_keys
from streaming.disciplines.state_row import StateRow

ShardRow = tuple[int, StateRow]
"""The key of a shard, and its state."""


@dataclass(frozen=True, slots=True)
class Resharded:
    """``rows`` of state, and what waits in each shard as it would report it (`arrow.totals`)."""

    rows: list[ShardRow]
    waiting: dict[int, str]


Reshard = Callable[[Any, Any, Sequence[ShardRow]], Resharded]
"""From the plan before, the plan after, and all rows. ValueError where it cannot be."""


def counts_of(parts: Iterable[Totals]) -> Totals:
    """The counts of all shards for the first of the new ones.

    The note whether anything was written begins anew: under the new checkpoint nothing was.
    """
    whole = Totals.sum(parts)
    return replace(whole, held=0, blocked=0, channels=0, batches=0, shared=0, oldest_ms=None)


def require_rest(rows: Sequence[ShardRow], waiting: int) -> None:
    """ValueError where something is on its way between shards, or waits (``waiting``)."""
    transit = sum(Totals.from_json(state.totals).transit for _, state in rows)
    if transit or waiting:
        raise ValueError(
            f"{transit} messages are on their way between its shards, and {waiting} wait there"
        )


def rekeyed(before: Plan, after: Plan, rows: Sequence[ShardRow]) -> Resharded:
    """The same shards under other keys; ValueError where there would be more or fewer of them.

    For shards that send each other messages: what is on its way is for a shard by its number.
    """
    if before.shards != after.shards:
        raise ValueError(
            f"its {before.shards} shards send each other messages, and there would be "
            f"{after.shards} of them"
        )
    old = shard_keys(before.shards, before.state_partitions)
    new = shard_keys(after.shards, after.state_partitions)
    moved = dict(zip(old, new, strict=True))
    return Resharded([(moved[key], _unwritten(state)) for key, state in rows], {})


def _unwritten(state: StateRow) -> StateRow:
    """The state without the note that it wrote something: under the new checkpoint nothing is."""
    totals = replace(Totals.from_json(state.totals), batches=0, shared=0)
    return state._replace(totals=totals.to_json())
