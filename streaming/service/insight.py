"""Reading a pipeline's state back from its checkpoint, whether it runs or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streaming.config import Config
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.discipline import Described
from streaming.errors import JobFailed
from streaming.service.checkpoint import Checkpoint
from streaming.service.planning import make_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def look(session: SparkSession, config: Config, name: str) -> Described:
    """What the last batch left of each channel, subscriber or peer; sorted by name.

    See `describe` of the disciplines. Raises JobFailed where there is no state to read.
    """
    checkpoint = Checkpoint(config.service.checkpoint, name)
    identity = checkpoint.identity()
    if identity is None or not checkpoint.status():
        raise JobFailed(
            f"Pipeline {name!r} has no state in {checkpoint.location}: no batch has ended there.",
            "Nothing was read.",
            f"Start it first: sequencer run CONFIG --pipeline {name}.",
        )
    # Spark's reader asks the part of it that only streaming queries start.
    session._jsparkSession.sessionState().streamingQueryManager().stateStoreCoordinator()  # noqa: SLF001
    frame = session.read.format("statestore").load(checkpoint.location)
    rows = frame.selectExpr("key.shard", "value.groupState.*").collect()
    discipline = DISCIPLINES[config.pipelines[name].discipline]
    read = discipline.describe(make_plan(config, name, identity, {}))
    described = [each for row in rows for each in read(row)]
    return sorted(described, key=lambda each: str(each[discipline.key]))
