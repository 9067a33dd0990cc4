"""Reading a pipeline's state back from its checkpoint, whether it runs or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from streaming.arrow.totals import KEYS
from streaming.config import Config
from streaming.disciplines.channels.codec import decode_shard
from streaming.disciplines.channels.describe import describe as channels_of
from streaming.disciplines.channels.pack import record_schema
from streaming.disciplines.exchange import ExchangeOperator
from streaming.disciplines.groups.describe import describe as subscribers_of
from streaming.disciplines.groups.operator import GroupOperator
from streaming.disciplines.multicast.describe import describe as peers_of
from streaming.disciplines.multicast.operator import MulticastOperator
from streaming.disciplines.plan import ChannelPlan, GroupPlan, MulticastPlan, Plan
from streaming.errors import JobFailed
from streaming.service.checkpoint import Checkpoint
from streaming.service.planning import make_plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Described = list[dict[str, Any]]
Reader = Callable[[Iterable[Any]], Described]


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
    plan = make_plan(config, name, identity, {})
    # Spark's reader asks the part of it that only streaming queries start.
    session._jsparkSession.sessionState().streamingQueryManager().stateStoreCoordinator()  # noqa: SLF001
    frame = session.read.format("statestore").load(checkpoint.location)
    rows = frame.selectExpr("key.shard", "value.groupState.*").collect()
    found = [each for row in rows for each in _reader(plan)(row)]
    return sorted(found, key=lambda each: str(each[KEYS[config.pipelines[name].discipline]]))


def _reader(plan: Plan) -> Reader:
    """From a row (shard's key, then its state) to what it says."""
    if isinstance(plan, ChannelPlan):
        schema, rules = record_schema(plan), plan.rules

        def of_channels(row: Iterable[Any]) -> Described:
            _, *state = row
            return channels_of(decode_shard(tuple(state), schema), rules)

        return of_channels
    if isinstance(plan, GroupPlan):
        return _of_exchange(GroupOperator(plan), subscribers_of)
    if isinstance(plan, MulticastPlan):
        return _of_exchange(MulticastOperator(plan), peers_of)
    raise NotImplementedError(type(plan).__name__)


def _of_exchange(operator: ExchangeOperator, describe: Callable[[Any], Described]) -> Reader:
    def read(row: Iterable[Any]) -> Described:
        key, *state = row
        return describe(operator.restored(key, tuple(state)))

    return read
