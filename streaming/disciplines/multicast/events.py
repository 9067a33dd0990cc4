"""The events of discipline `multicast`, with their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streaming.arrow import output
from streaming.disciplines.multicast.nodes import raw, shown


def undelivered(
    pipeline: str, place: Mapping[str, Any], sender: bytes, destination: str, now_ms: int
) -> output.Event:
    """A destination did not get the message of the input at a place; goes to its sender's key."""
    begin = output.event(pipeline, "undelivered", place, now_ms)
    return sender, {
        **begin,
        "id": f"{begin['id']}:{destination}",
        **place,
        "destination": destination,
        "reason": "destroyed-node",
    }


def retired(pipeline: str, name: str, count: tuple[int, int], now_ms: int) -> output.Event:
    """A peer took no part for long; ``count``: its incarnation, and the next `sequence`."""
    incarnation, sequence = count
    return raw(name), {
        "event": "retired",
        "id": f"{pipeline}:retired:{shown(name)}:{incarnation}",
        "at": output.at(now_ms),
        "peer": shown(name),
        "incarnation": incarnation,
        "sequence": sequence,
    }
