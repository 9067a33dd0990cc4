"""Discipline `group`: subscribers of overlapping groups see one order.

`settings` what users write; `plan` what workers know; `operator` one shard's step, `commands`
changes of membership, `views` stamps as subscribers see them, `codec` messages on their way and a
shard's state as bytes; `describe` the same for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streaming.disciplines.discipline import Discipline, Fixed, Reader
from streaming.disciplines.groups.settings import GroupPipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streaming.disciplines.groups.plan import GroupPlan
    from streaming.disciplines.source import Source


def _identity(settings: GroupPipeline) -> dict[str, Any]:
    return {
        "groups": {name: sorted(members) for name, members in sorted(settings.groups.items())},
        "nodes": settings.nodes,
        "sender_order": settings.sender_order,
    }


def _plan(
    settings: GroupPipeline, identity: Mapping[str, Any], common: dict[str, Any]
) -> GroupPlan:
    from streaming.disciplines.exchange import exchanging  # noqa: PLC0415
    from streaming.disciplines.groups.operator import first_ingress  # noqa: PLC0415
    from streaming.disciplines.groups.plan import GroupPlan  # noqa: PLC0415

    plan = GroupPlan(
        **exchanging(common),
        commands=settings.commands,
        transit=settings.transit,
        groups={name: tuple(members) for name, members in identity["groups"].items()},
        nodes=settings.sequencing_nodes,
    )
    return replace(plan, ingress=first_ingress(plan))


def _build(source: Source, plan: GroupPlan) -> DataFrame:
    from streaming.disciplines.exchange import exchange  # noqa: PLC0415
    from streaming.disciplines.groups.operator import GroupOperator, route  # noqa: PLC0415

    return exchange(source, plan, route(plan), GroupOperator(plan))


def _describe(plan: GroupPlan) -> Reader:
    from streaming.disciplines.groups.describe import describe  # noqa: PLC0415
    from streaming.disciplines.groups.operator import GroupOperator  # noqa: PLC0415

    return GroupOperator(plan).reader(describe)


GROUP = Discipline(
    name="group",
    settings=GroupPipeline,
    key="subscriber",
    shown=("subscriber", "groups", "sequence", "held", "waiting", "active"),
    counted=("transit",),
    fixed={
        "groups": Fixed(instead="Change groups by commands on the pipeline's commands topic."),
        "nodes": Fixed("set the pipeline's nodes back"),
        "sender_order": Fixed("set the pipeline's sender_order back"),
    },
    identity=_identity,
    plan=_plan,
    build=_build,
    describe=_describe,
)
