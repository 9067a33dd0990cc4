"""Events of channels, as the events topic has them."""

from __future__ import annotations

from typing import Any

from sequencer.channels import ChannelEvent
from sequencer.channels.outcome import Want
from streaming.arrow import output
from streaming.arrow.key_text import key_to_json


def event_of(event: ChannelEvent, pipeline: str, now_ms: int) -> tuple[bytes, dict[str, Any]]:
    """Return an event's key and JSON."""
    name = (event.channel, event.incarnation, event.epoch, event.position)
    return event.channel, {
        "event": event.kind,
        "id": event_id(pipeline, event.kind, *name),
        "at": output.at(now_ms),
        "channel": key_to_json(event.channel),
        "epoch": event.epoch,
        "incarnation": event.incarnation,
        **event.fields,
    }


def event_id(
    pipeline: str, kind: str, key: bytes, incarnation: int, epoch: int, position: int
) -> str:
    """Return the id of an event, which is the same in a repeated batch.

    A channel that is no text, or looks like one of these, stands there in hexadecimal digits.
    """
    channel = key_to_json(key)
    is_plain = isinstance(channel, str) and not channel.startswith("0x")
    name = channel if is_plain else f"0x{key.hex()}"
    return f"{pipeline}:{kind}:{name}:{incarnation}:{epoch}:{position}"


def wanted_of(want: Want) -> tuple[bytes, dict[str, Any]]:
    """Return the key and JSON of a record that asks for a run of missing labels."""
    return want.channel, {
        "channel": key_to_json(want.channel),
        "epoch": want.epoch,
        "from": want.first,
        "to": want.stop,
        "try": want.tries,
    }
