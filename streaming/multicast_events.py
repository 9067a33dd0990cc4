"""The events of discipline `multicast`, with their keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streaming import output
from streaming.multicast_nodes import raw, shown
from streaming.multicast_peers import Count

Event = tuple[bytes, dict[str, Any]]


def answer(
    pipeline: str, place: Mapping[str, Any], own: str | None, now_ms: int, more: Mapping[str, Any]
) -> Event:
    """The event that answers the command at a place; refused where ``more`` has a reason."""
    where = f"{place['topic']}:{place['partition']}:{place['offset']}"
    kind = "command-refused" if "reason" in more else "command-done"
    event = {
        "event": kind,
        "id": f"{pipeline}:command:{where}",
        "at": output.at(now_ms),
        "command": own,
        **place,
        **more,
    }
    return (own or "").encode(), event


def undelivered(
    pipeline: str, place: Mapping[str, Any], sender: bytes, destination: str, now_ms: int
) -> Event:
    """A destination did not get the message of the input at a place; goes to its sender's key."""
    where = f"{place['topic']}:{place['partition']}:{place['offset']}"
    return sender, {
        "event": "undelivered",
        "id": f"{pipeline}:undelivered:{where}:{destination}",
        "at": output.at(now_ms),
        **place,
        "destination": destination,
        "reason": "destroyed-node",
    }


def retired(pipeline: str, name: str, count: Count, now_ms: int) -> Event:
    """A peer took no part for long; `sequence` would have been its next."""
    return raw(name), {
        "event": "retired",
        "id": f"{pipeline}:retired:{shown(name)}:{count.incarnation}",
        "at": output.at(now_ms),
        "peer": shown(name),
        "incarnation": count.incarnation,
        "sequence": count.sequence,
    }
