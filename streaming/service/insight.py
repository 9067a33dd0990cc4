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
from streaming.errors import JobFailed, StorageUnavailable
from streaming.service.checkpoint import Checkpoint
from streaming.service.planning import make_plan

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
        rows = state_rows(session, checkpoint.location)
        try:
            return described(config, name, plan, rows)
        except StorageUnavailable as error:
            missing = error
    raise StorageUnavailable(missing.message, "Nothing was changed.", missing.remedy) from missing


def state_rows(session: SparkSession, location: str) -> list[Row]:
    """All rows of a pipeline's state: the key of a shard, then the fields of its state."""
    # Spark's reader asks the part of it that only streaming queries start.
    session._jsparkSession.sessionState().streamingQueryManager().stateStoreCoordinator()  # noqa: SLF001
    frame = session.read.format("statestore").load(location)
    rows = frame.selectExpr("key.shard", "value.groupState.*").collect()
    return sorted(tuple(row) for row in rows)


def described(config: Config, name: str, plan: Plan, rows: Iterable[Row]) -> Described:
    """What rows of state say under a plan; sorted by name."""
    discipline = DISCIPLINES[config.pipelines[name].discipline]
    read = discipline.describe(plan)
    parts = [read(row) for row in rows]  # all at once, while their files are there
    return sorted(chain.from_iterable(parts), key=lambda item: str(item[discipline.key]))
