"""What a shard knows of the channels that it labels, for people and programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streaming.arrow.key_text import key_to_json
from streaming.arrow.output import at
from streaming.disciplines.channels.codec import ChannelShard


def describe(shard: ChannelShard) -> Iterator[dict[str, Any]]:
    """A dictionary for each channel; ``next`` is the label that its next record gets."""
    state = shard.state
    columns = (state.sequence, state.incarnation, state.active_ms)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    for key, (sequence, incarnation, active_ms) in zip(
        state.keys.to_pylist(), numbers, strict=True
    ):
        yield {
            "channel": key_to_json(key),
            "epoch": incarnation,
            "next": sequence,
            "sequence": sequence,
            "incarnation": incarnation,
            "active": at(active_ms),
        }
