"""Discipline `group`: subscribers of overlapping groups see one order.

`settings` what users write; `plan` what workers know; `records` what senders wrote, `commands`
changes of membership. `batch`: the order of the micro-batch; `network`: atoms on sequencing nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
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
from streaming.disciplines.groups.settings import NETWORK, GroupPipeline
from streaming.disciplines.plan import few_shards

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streaming.disciplines.groups.plan import BatchPlan, NetworkPlan
    from streaming.disciplines.plan import Plan
    from streaming.disciplines.source import Source


DELIVERIES_MAX = 1_000_000
"""Deliveries of a batch, about. How many a message has is estimated from the first membership, then
from the batches before."""


def _identity(settings: GroupPipeline) -> dict[str, Any]:
    network = settings.sequencing == NETWORK
    return {
        "groups": {name: sorted(members) for name, members in sorted(settings.groups.items())},
        "sequencing": settings.sequencing,
        "nodes": settings.nodes if network else None,
        "sender_order": settings.sender_order,
    }


def _plan(settings: GroupPipeline, identity: Mapping[str, Any], common: dict[str, Any]) -> Plan:
    if settings.sequencing == NETWORK:
        return _network_plan(settings, identity, common)
    from streaming.disciplines.groups.batch.codec import encode_first  # noqa: PLC0415
    from streaming.disciplines.groups.plan import BatchPlan  # noqa: PLC0415

    return BatchPlan(
        **few_shards(common),
        commands=settings.commands,
        membership=encode_first(identity["groups"]),
        stamps=settings.stamps,
        notices=settings.notices,
        input_commands=settings.input_commands,
    )


def _network_plan(
    settings: GroupPipeline, identity: Mapping[str, Any], common: dict[str, Any]
) -> NetworkPlan:
    from streaming.disciplines.groups.network.route import first_ingress  # noqa: PLC0415
    from streaming.disciplines.groups.plan import NetworkPlan  # noqa: PLC0415

    plan = NetworkPlan(
        **few_shards(common),
        commands=settings.commands,
        transit=settings.transit,
        groups={name: tuple(members) for name, members in identity["groups"].items()},
        nodes=settings.sequencing_nodes,
        stamps=settings.stamps,
        notices=settings.notices,
        input_commands=settings.input_commands,
    )
    return replace(plan, ingress=first_ingress(plan))


def _build(source: Source, plan: BatchPlan | NetworkPlan) -> DataFrame:
    from streaming.disciplines.groups.plan import BatchPlan  # noqa: PLC0415

    if isinstance(plan, BatchPlan):
        from streaming.disciplines.broadcast import broadcast  # noqa: PLC0415
        from streaming.disciplines.groups.batch.core import BatchOperator  # noqa: PLC0415

        return broadcast(source, plan, BatchOperator)
    from streaming.disciplines.exchange import exchange  # noqa: PLC0415
    from streaming.disciplines.groups.network.core import NetworkOperator  # noqa: PLC0415
    from streaming.disciplines.groups.network.route import route  # noqa: PLC0415

    return exchange(source, plan, route(plan), NetworkOperator(plan))


def _describe(plan: BatchPlan | NetworkPlan) -> Reader:
    from streaming.disciplines.groups.plan import BatchPlan  # noqa: PLC0415

    if isinstance(plan, BatchPlan):
        from streaming.disciplines.groups.batch.core import BatchOperator  # noqa: PLC0415
        from streaming.disciplines.groups.batch.describe import describe  # noqa: PLC0415

        return BatchOperator(plan).reader(describe)
    from streaming.disciplines.groups.network import describe as network  # noqa: PLC0415
    from streaming.disciplines.groups.network.core import NetworkOperator  # noqa: PLC0415

    return NetworkOperator(plan).reader(network.describe)


def _reshard(settings: GroupPipeline) -> StateMove:
    if settings.sequencing == NETWORK:
        from streaming.disciplines.groups.network import reshard as network  # noqa: PLC0415

        return StateMove(network.reshard)
    from streaming.disciplines.groups.batch.reshard import reshard  # noqa: PLC0415

    return StateMove(reshard)


def _pace(settings: GroupPipeline) -> Pace:
    sizes = [len(members) for members in settings.groups.values()]
    bytes_max = EXCHANGED_BYTES_MAX if settings.sequencing == NETWORK else None
    if not sizes:
        return Pace(deliveries_max=DELIVERIES_MAX, bytes_max=bytes_max)
    records_max = max(1, DELIVERIES_MAX * len(sizes) // sum(sizes))
    return Pace(records_max, DELIVERIES_MAX, bytes_max=bytes_max)


def _waiting(_settings: GroupPipeline, texts: Iterable[str], most: int | None) -> Described:
    from streaming.disciplines.waiting import describe_waiting  # noqa: PLC0415

    return describe_waiting(texts, "subscriber", most)


GROUP = Discipline(
    name="group",
    settings=GroupPipeline,
    key="subscriber",
    operators=lambda settings: (f"streaming.disciplines.groups.{settings.sequencing}.core",),
    shown=("subscriber", "groups", "sequence", "held", "waiting", "active"),
    counted=("transit", "notices", "commands", "overlaps"),
    reasons=(
        "missing-sender",
        "missing-group",
        "unknown-group",
        "removed-group",
        "too-large",
        "refused",
    ),
    events=(
        "group-added",
        "group-changed",
        "group-removed",
        "group-moved",
        "undelivered",
        "retired",
    ),
    fixed={
        "groups": Fixed(
            instead="Change groups by commands on the pipeline's commands topic, and set it back: "
            "verify begins with it."
        ),
        "sequencing": Fixed(
            'write sequencing = {was} into its table (without it, it is "batch")',
        ),
        "nodes": Fixed("set the pipeline's nodes back"),
        "sender_order": Fixed("set the pipeline's sender_order back"),
    },
    identity=_identity,
    plan=_plan,
    build=_build,
    describe=_describe,
    reshard=_reshard,
    waiting=_waiting,
    pace=_pace,
)
