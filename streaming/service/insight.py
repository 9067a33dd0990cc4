"""Reading a pipeline's state back from its checkpoint, whether it runs or not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from streaming.config import Config
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.discipline import Described
from streaming.disciplines.plan import Plan
from streaming.disciplines.reshard import Row
from streaming.disciplines.state_row import StateRow
from streaming.errors import JobFailed, StorageUnavailable
from streaming.service.checkpoint import Checkpoint
from streaming.service.planning import make_plan
from streaming.spark.session_access import state_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READS_MAX = 5
"""A service that runs removes files of states that it has left for a while: they are read anew."""


def look(session: SparkSession, config: Config, name: str) -> Described:
    """What the last batch left of each channel, subscriber or peer; sorted by name.

    See `describe` of the disciplines. Raises JobFailed where there is no state to read,
    StorageUnavailable where files of it are missing.
    """
    checkpoint = Checkpoint.of(config, name)
    identity = checkpoint.identity()
    if identity is None or not checkpoint.status():
        raise JobFailed(
            f"Pipeline {name!r} has no state in {checkpoint.location}: no batch has ended there.",
            "Nothing was read.",
            f"Start it first: sequencer run CONFIG --pipeline {name}.",
        )
    plan = make_plan(config, name, identity, {})
    for _ in range(READS_MAX):
        rows = shard_states(session, checkpoint.location)
        try:
            return described(config, name, plan, rows)
        except StorageUnavailable as error:
            missing = error
    raise StorageUnavailable(missing.message, "Nothing was changed.", missing.remedy) from missing


def shard_states(session: SparkSession, location: str) -> list[Row]:
    """Return the states of a pipeline's shards, each with the shard's key."""
    return [(key, StateRow(*state)) for key, *state in state_rows(session, location)]


def described(config: Config, name: str, plan: Plan, rows: Iterable[Row]) -> Described:
    """What rows of state say under a plan; sorted by name."""
    discipline = DISCIPLINES[config.pipelines[name].discipline]
    read = discipline.describe(plan)
    parts = [read(*row) for row in rows]  # all at once, while their files are there
    return sorted(chain.from_iterable(parts), key=lambda item: str(item[discipline.key]))
