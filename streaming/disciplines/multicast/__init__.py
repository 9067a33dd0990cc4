"""Discipline `multicast`: any sender to any destinations, in one order.

`settings` what users write; `plan` what workers know; `operator` one shard's step (`batch` what it
collects), `records` what senders wrote and peers read, `route` who lives where, `nodes` nodes by
command, `peers` the shard's peers, `rows` the records on their way, `events` what users are told,
`codec` and `state` bytes; `describe` the same for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streaming.disciplines.discipline import Discipline, Fixed, Pace, Reader
from streaming.disciplines.multicast.settings import MulticastPipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streaming.disciplines.multicast.plan import MulticastPlan
    from streaming.disciplines.source import Source

PACE = Pace(records_max=20_000, held_high=400_000, held_low=150_000)
"""A multicast that has to wait does so in the state; all shards have some 100,000 deliveries on
their way."""


def _identity(settings: MulticastPipeline) -> dict[str, Any]:
    return {"order": settings.order}


def _plan(
    settings: MulticastPipeline, _identity: Mapping[str, Any], common: dict[str, Any]
) -> MulticastPlan:
    from streaming.disciplines.exchange import exchanging  # noqa: PLC0415
    from streaming.disciplines.multicast.plan import MulticastPlan  # noqa: PLC0415

    return MulticastPlan(
        **exchanging(common),
        commands=settings.commands,
        transit=settings.transit,
        order=settings.order,
    )


def _build(source: Source, plan: MulticastPlan) -> DataFrame:
    from streaming.disciplines.exchange import exchange  # noqa: PLC0415
    from streaming.disciplines.multicast import operator  # noqa: PLC0415

    return exchange(source, plan, operator.route(plan), operator.MulticastOperator(plan))


def _describe(plan: MulticastPlan) -> Reader:
    from streaming.disciplines.multicast.describe import describe  # noqa: PLC0415
    from streaming.disciplines.multicast.operator import MulticastOperator  # noqa: PLC0415

    return MulticastOperator(plan).reader(describe)


MULTICAST = Discipline(
    name="multicast",
    settings=MulticastPipeline,
    key="peer",
    shown=("peer", "sequence", "held", "sending", "nodes", "handles", "active"),
    counted=("transit", "undelivered"),
    fixed={"order": Fixed("set the pipeline's order back")},
    identity=_identity,
    plan=_plan,
    build=_build,
    describe=_describe,
    pace=lambda _settings: PACE,
)
