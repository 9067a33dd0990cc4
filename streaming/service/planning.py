"""From a configuration and what a checkpoint pinned to the plan of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from streaming.config import Config, GroupPipeline, MulticastPipeline
from streaming.disciplines.groups.operator import first_ingress
from streaming.disciplines.plan import ChannelPlan, GroupPlan, Headers, MulticastPlan, Plan
from streaming.kafka import connection
from streaming.service.checkpoint import Identity


def make_plan(config: Config, name: str, identity: Identity, partitions: Mapping[str, int]) -> Plan:
    """The plan of a pipeline; ``partitions`` of the topics that it writes, as far as known."""
    settings, service = config.pipelines[name], config.service
    common: dict[str, Any] = {
        "service": service.name,
        "pipeline": name,
        "inputs": tuple(sorted(settings.input)),
        "output": settings.output,
        "rejects": settings.rejects,
        "events": settings.events,
        "partitions": dict(partitions),
        "headers": Headers(service.header_prefix),
        "delivery": service.delivery,
        "shards": service.shards,
        "state_partitions": identity.state_partitions,
        "retire_after_ms": settings.retire_after.ms,
        "create_topics": service.create_topics,
        "producer": connection.confluent(config),
    }
    # Shards that send each other messages are no more than can work at the same time.
    exchanging = {"shards": min(service.shards, identity.state_partitions)}
    if isinstance(settings, GroupPipeline):
        plan = GroupPlan(
            **common | exchanging,
            commands=settings.commands,
            transit=settings.transit,
            groups={name: tuple(members) for name, members in identity.groups.items()},
            nodes=settings.sequencing_nodes,
        )
        return replace(plan, ingress=first_ingress(plan))
    if isinstance(settings, MulticastPipeline):
        return MulticastPlan(
            **common | exchanging,
            commands=settings.commands,
            transit=settings.transit,
            order=settings.order,
        )
    return ChannelPlan(
        **common,
        rules=config.rules(name),
        channel=settings.channel,
        label=settings.label,
        drop_duplicates=settings.duplicates == "drop",
    )
