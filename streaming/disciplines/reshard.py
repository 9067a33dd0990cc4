"""Moving state to other shards: the part that all disciplines share.

A `Reshard` takes the states of all shards of a pipeline, each with the shard's key, and returns
those under another plan. Every channel, subscriber and peer keeps its state.
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
    """``rows`` of state, and each shard's report of what waits (`arrow.totals`)."""

    rows: list[ShardRow]
    waiting: dict[int, str]


Reshard = Callable[[Any, Any, Sequence[ShardRow]], Resharded]
"""Takes the old plan, the new plan, and all rows. Raises ValueError if the move is not possible."""


def counts_of(parts: Iterable[Totals]) -> Totals:
    """Return the counts of all shards, for the first of the new ones.

    The number of batches that wrote anything starts at 0: under the new checkpoint none did.
    """
    whole = Totals.sum(parts)
    return replace(whole, held=0, blocked=0, channels=0, batches=0, shared=0, oldest_ms=None)


def require_rest(rows: Sequence[ShardRow], waiting: int) -> None:
    """Raise ValueError if messages are in transit between shards, or ``waiting``."""
    transit = sum(Totals.from_json(state.totals).transit for _, state in rows)
    if transit or waiting:
        raise ValueError(
            f"{transit} messages are on their way between its shards, and {waiting} wait there"
        )


def rekeyed(before: Plan, after: Plan, rows: Sequence[ShardRow]) -> Resharded:
    """Return the same shards under other keys; ValueError if their number would change.

    For shards that send each other messages, which are addressed to a shard's number. Before the
    first record there is no state, and any number will do.
    """
    if not rows:
        return Resharded([], {})
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
    """Return the state without the count of batches that wrote: the new checkpoint has none."""
    totals = replace(Totals.from_json(state.totals), batches=0, shared=0)
    return state._replace(totals=totals.to_json())
