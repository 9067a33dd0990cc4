"""Reading a pipeline's state back from its checkpoint, whether it runs or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from streaming.config import Config
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.discipline import Described
from streaming.disciplines.plan import Plan
from streaming.disciplines.reshard import ShardRow
from streaming.disciplines.state_row import StateRow
from streaming.errors import JobFailed, StorageUnavailable
from streaming.service.checkpoint import Checkpoint
from streaming.service.move_checks import require_as_it_ran
from streaming.service.planning import make_plan
from streaming.spark.session_access import state_rows, use_state_format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Found = TypeVar("Found")
Wanted = Callable[[dict[str, Any]], bool]

READS_MAX = 5
"""A service that runs removes files of states that it has left for a while: they are read anew."""


def look(
    session: SparkSession, config: Config, name: str, is_wanted: Wanted = lambda _: True
) -> Described:
    """What the last batch left of each channel, subscriber or peer that is wanted; sorted by name.

    See `describe` of the disciplines. Raises JobFailed where there is no state to read,
    StorageUnavailable where files of it are missing.
    """

    def read(plan: Plan, rows: Iterable[ShardRow]) -> Described:
        return described(config, name, plan, rows, is_wanted)

    return _read(session, config, name, read)


def who_waits(session: SparkSession, config: Config, name: str, most: int | None) -> Described:
    """Return which channels wait, by the state: all of them, or the ``most`` longest.

    As `waiting` of the disciplines has it, which lists only LISTED_MAX of each shard. Raises what
    :func:`look` raises.
    """
    settings = config.pipelines[name]
    discipline = DISCIPLINES[settings.discipline]

    def read(plan: Plan, rows: Iterable[ShardRow]) -> Described:
        text_of = discipline.all_waiting(plan, most) if discipline.all_waiting else None
        texts = [] if text_of is None else [text_of(*row) for row in rows]
        return discipline.waiting(settings, texts, most)

    return _read(session, config, name, read)


def _read(
    session: SparkSession, config: Config, name: str, read: Callable[[Plan, list[ShardRow]], Found]
) -> Found:
    """Return what ``read`` makes of the shards' states."""
    checkpoint = Checkpoint.of(config, name)
    identity = checkpoint.identity()
    if identity is None or not checkpoint.status():
        raise JobFailed(
            f"Pipeline {name!r} has no state in {checkpoint.location}: no batch has ended there.",
            "Nothing was read.",
            f"Start it first: sequencer run CONFIG --pipeline {name}.",
        )
    require_as_it_ran(config, checkpoint, reads=False)
    plan = make_plan(config, name, identity, {})
    for _ in range(READS_MAX):
        rows = shard_states(session, checkpoint.location, checkpoint.state_format())
        try:
            return read(plan, rows)
        except StorageUnavailable as error:
            missing = error
    raise StorageUnavailable(missing.message, "Nothing was changed.", missing.remedy) from missing


def shard_states(session: SparkSession, location: str, state_format: int) -> list[ShardRow]:
    """Return the states of a pipeline's shards, each with the shard's key."""
    use_state_format(session, state_format)
    return [(key, StateRow.from_text(text)) for key, text in state_rows(session, location)]


def described(
    config: Config,
    name: str,
    plan: Plan,
    rows: Iterable[ShardRow],
    is_wanted: Wanted = lambda _: True,
) -> Described:
    """What rows of state say under a plan; sorted by name."""
    key = DISCIPLINES[config.pipelines[name].discipline].key
    # All at once, while their files are there; a million channels take a GB of memory.
    found = filter(is_wanted, described_each(config, name, plan, rows))
    return sorted(found, key=lambda item: str(item[key]))


def described_each(
    config: Config, name: str, plan: Plan, rows: Iterable[ShardRow]
) -> Iterator[dict[str, Any]]:
    """The same, one after the other."""
    read = DISCIPLINES[config.pipelines[name].discipline].describe(plan)
    return chain.from_iterable(read(*row) for row in rows)
