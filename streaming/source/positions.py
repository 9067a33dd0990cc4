"""Where a query stands: how far it has read each partition, and what it is that it has read.

As the checkpoint has it (JSON), with a topic's log beside its offsets::

    {"trades.in": {"0": 12, "1": 40}, "#trades.in": {"id": "kRxUTAlv…", "epochs": {"0": 3, "1": 5}}}

A topic that was deleted and made again has another id (KIP-516). A leader epoch counts the
elections of a partition's leader: a leader says where the log ends that was written up to an epoch
(KIP-320), and where that is less than what was read, the log was cut back. Where a query did not go
on reading where it had ended, as records were lost and somebody accepted that, ``begins`` has where
the batch began; and in a query's first batch, which began where the logs did at that time.

A batch that leaves records unread says until when all that had come is read (Unix time, 0: not
known), and since when reading is behind::

    {"#": {"caught_up_ms": 1732881600000, "behind_ms": 1732881601000}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Offsets = Mapping[str, Mapping[str, int]]
"""Offsets by topic and partition."""

Position = Mapping[str, Mapping[str, Any]]
"""What the checkpoint has."""

MARK = "#"
"""Before a topic's name; no topic has it in its own."""


@dataclass(frozen=True, slots=True)
class Log:
    """What offsets of a topic are offsets of; ``id`` "" and no epoch where nothing is known."""

    id: str = ""
    epochs: Mapping[str, int] = field(default_factory=dict)
    begins: Mapping[str, int] = field(default_factory=dict)


def position(offsets: Offsets, logs: Mapping[str, Log]) -> dict[str, dict[str, Any]]:
    """Return offsets and logs as the checkpoint has them."""
    found: dict[str, dict[str, Any]] = {topic: dict(of) for topic, of in offsets.items()}
    for topic, log in logs.items():
        begins = {"begins": dict(log.begins)} if log.begins else {}
        found[MARK + topic] = {"id": log.id, "epochs": dict(log.epochs), **begins}
    return found


def offsets_in(given: Position) -> dict[str, dict[str, int]]:
    """Return the offsets in a position."""
    return {topic: dict(of) for topic, of in given.items() if not topic.startswith(MARK)}


def logs_in(given: Position) -> dict[str, Log]:
    """Return the logs in a position."""
    marked = {name: of for name, of in given.items() if name[:1] == MARK and name != MARK}
    return {name.removeprefix(MARK): Log(**of) for name, of in marked.items()}


def begin_of(start: Position, end: Position) -> Offsets:
    """Return where a batch begins that goes on from ``start`` and has this end."""
    begin = offsets_in(start)
    if start == end:  # it has nothing; ``begins`` are those of the batch before
        return begin
    for topic, log in logs_in(end).items():
        begin[topic] = {**begin.get(topic, {}), **log.begins}
    return begin
