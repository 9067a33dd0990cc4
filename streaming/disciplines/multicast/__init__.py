"""Discipline `multicast`: any sender to any destinations, in one order.

`settings` what users write; `plan` what workers know; `nodes` nodes by command, `records` what
senders wrote and peers read, `events` what users are told, `describe` state for people.

In the order of the batch: `batched` a shard's step, `slices` the deliveries that it writes. By
clocks or the counter: `operator` a step (`turn` what it collects), `route` who lives where,
`peers` the shard's peers, `orders` what the two protocols differ in, `rows` the records on their
way, `codec` and `state` bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from streaming.disciplines.discipline import Discipline, Fixed, Pace, Reader, StateMove
from streaming.disciplines.multicast.settings import MulticastPipeline
from streaming.disciplines.plan import few_shards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streaming.disciplines.multicast.plan import BatchMulticastPlan, MulticastPlan
    from streaming.disciplines.source import Source

PACE = Pace(records_max=50_000, deliveries_max=1_000_000)
"""A batch has many times as many deliveries as records."""

WAITING_PACE = Pace(records_max=20_000, held_high=400_000, held_low=150_000)
"""What has to wait for a protocol's steps does so in the state; all shards have some 100,000
deliveries on their way."""


def _identity(settings: MulticastPipeline) -> dict[str, Any]:
    return {"order": settings.order}


def _plan(
    settings: MulticastPipeline, _identity: Mapping[str, Any], common: dict[str, Any]
) -> BatchMulticastPlan | MulticastPlan:
    from streaming.disciplines.multicast.plan import (  # noqa: PLC0415
        BatchMulticastPlan,
        MulticastPlan,
    )

    if settings.order == "batch":
        return BatchMulticastPlan(
            **few_shards(common),
            commands=settings.commands,
            input_commands=settings.input_commands,
        )
    return MulticastPlan(
        **few_shards(common),
        commands=settings.commands,
        transit=settings.transit,
        order=settings.order,
    )


def _build(source: Source, plan: BatchMulticastPlan | MulticastPlan) -> DataFrame:
    from streaming.disciplines.broadcast import broadcast  # noqa: PLC0415
    from streaming.disciplines.exchange import exchange  # noqa: PLC0415
    from streaming.disciplines.multicast import batched, operator  # noqa: PLC0415
    from streaming.disciplines.multicast.plan import BatchMulticastPlan  # noqa: PLC0415
    from streaming.disciplines.multicast.route import route  # noqa: PLC0415

    if isinstance(plan, BatchMulticastPlan):
        return broadcast(source, plan, batched.BatchOperator(plan))
    return exchange(source, plan, route(plan), operator.MulticastOperator(plan))


def _describe(plan: BatchMulticastPlan | MulticastPlan) -> Reader:
    from streaming.disciplines.multicast import batched, describe, operator  # noqa: PLC0415
    from streaming.disciplines.multicast.plan import BatchMulticastPlan  # noqa: PLC0415

    if isinstance(plan, BatchMulticastPlan):
        return batched.BatchOperator(plan).reader(describe.of_batch)
    return operator.MulticastOperator(plan).reader(describe.of_protocol)


def _reshard(settings: MulticastPipeline) -> StateMove:
    if settings.order != "batch":
        return StateMove(exchanges=True)
    from streaming.disciplines.multicast.reshard import reshard  # noqa: PLC0415

    return StateMove(reshard)


MULTICAST = Discipline(
    name="multicast",
    settings=MulticastPipeline,
    key="peer",
    operators=lambda settings: (
        f"streaming.disciplines.multicast.{'batched' if settings.order == 'batch' else 'operator'}",
    ),
    shown=("peer", "sequence", "held", "sending", "nodes", "handles", "active"),
    counted=("transit", "undelivered", "notices", "commands"),
    reasons=(
        "missing-sender",
        "bad-destination",
        "too-many-destinations",
        "too-many-handles",
        "destroyed-node",
        "no-room",
        "too-large",
        "refused",
    ),
    fixed={
        "order": Fixed('write order = {was} into its table (without it, it is "batch")'),
    },
    identity=_identity,
    plan=_plan,
    build=_build,
    describe=_describe,
    reshard=_reshard,
    pace=lambda settings: PACE if settings.order == "batch" else WAITING_PACE,
)
