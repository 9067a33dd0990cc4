"""Discipline `multicast`: any sender to any destinations, in one order.

`settings` what users write; `plan` what workers know; `records` what senders wrote and peers read;
`commands` about nodes, `nodes` all of them; `events` for the events topic, `describe` a peer for
people. `batch`: the order of the micro-batch; `protocol`: clocks or a counter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from streaming.disciplines.discipline import (
    EXCHANGED_BYTES_MAX,
    Described,
    Discipline,
    Fixed,
    Pace,
    Reader,
    StateMove,
)
from streaming.disciplines.multicast.settings import MulticastPipeline
from streaming.disciplines.plan import few_shards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streaming.disciplines.multicast.plan import BatchMulticastPlan, MulticastPlan
    from streaming.disciplines.source import Source

PACE = Pace(records_max=50_000, deliveries_max=1_000_000)
"""Limits deliveries, as a batch has many times as many of them as records."""

WAITING_PACE = Pace(
    records_max=20_000, held_high=400_000, held_low=150_000, bytes_max=EXCHANGED_BYTES_MAX
)
"""Messages wait for a protocol's steps in the state; all shards together have some 100,000
deliveries in flight."""


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
        input_commands=settings.input_commands,
    )


def _build(source: Source, plan: BatchMulticastPlan | MulticastPlan) -> DataFrame:
    from streaming.disciplines.broadcast import broadcast  # noqa: PLC0415
    from streaming.disciplines.exchange import exchange  # noqa: PLC0415
    from streaming.disciplines.multicast.batch.core import BatchOperator  # noqa: PLC0415
    from streaming.disciplines.multicast.plan import BatchMulticastPlan  # noqa: PLC0415
    from streaming.disciplines.multicast.protocol import core  # noqa: PLC0415
    from streaming.disciplines.multicast.protocol.route import route  # noqa: PLC0415

    if isinstance(plan, BatchMulticastPlan):
        return broadcast(source, plan, BatchOperator)
    return exchange(source, plan, route(plan), core.MulticastOperator(plan))


def _describe(plan: BatchMulticastPlan | MulticastPlan) -> Reader:
    from streaming.disciplines.multicast.plan import BatchMulticastPlan  # noqa: PLC0415

    if isinstance(plan, BatchMulticastPlan):
        from streaming.disciplines.multicast.batch import describe  # noqa: PLC0415
        from streaming.disciplines.multicast.batch.core import BatchOperator  # noqa: PLC0415

        return BatchOperator(plan).reader(describe.describe)
    from streaming.disciplines.multicast.protocol import core  # noqa: PLC0415
    from streaming.disciplines.multicast.protocol import describe as protocol  # noqa: PLC0415

    return core.MulticastOperator(plan).reader(protocol.describe)


def _reshard(settings: MulticastPipeline) -> StateMove:
    if settings.order != "batch":
        from streaming.disciplines.multicast.protocol import reshard as protocol  # noqa: PLC0415

        return StateMove(protocol.reshard)
    from streaming.disciplines.multicast.batch.reshard import reshard  # noqa: PLC0415

    return StateMove(reshard)


def _waiting(_settings: MulticastPipeline, texts: Iterable[str], most: int | None) -> Described:
    from streaming.disciplines.waiting import describe_waiting  # noqa: PLC0415

    return describe_waiting(texts, "peer", most)


MULTICAST = Discipline(
    name="multicast",
    settings=MulticastPipeline,
    key="peer",
    operators=lambda settings: (
        "streaming.disciplines.multicast."
        + ("batch.core" if settings.order == "batch" else "protocol.core"),
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
    events=("undelivered", "retired"),
    fixed={
        "order": Fixed('write order = {was} into its table (without it, it is "batch")'),
    },
    identity=_identity,
    plan=_plan,
    build=_build,
    describe=_describe,
    reshard=_reshard,
    waiting=_waiting,
    pace=lambda settings: PACE if settings.order == "batch" else WAITING_PACE,
)
