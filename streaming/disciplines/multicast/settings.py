"""What users write for discipline `multicast`."""

from __future__ import annotations

from typing import Literal

from sequencer.channels.rules import (
    CUSTOM_SEARCH_MIN,
)
from sequencer.labels import CUSTOM_LABELS_MAX
from streaming.settings.pipeline import Pipeline
from streaming.settings.values import (
    TopicName,
)

CUSTOM_WINDOW_MAX = (CUSTOM_LABELS_MAX - CUSTOM_SEARCH_MIN) // 2
"""A custom sequence is searched two windows ahead, among the labels that it may have in all."""


class MulticastPipeline(Pipeline):
    """Discipline ``multicast``: any sender to any destinations, in one order."""

    discipline: Literal["multicast"]
    transit: TopicName
    order: Literal["clock", "counter"] = "clock"

    @property
    def transit_topic(self) -> str:
        """By which peers send each other the protocol's steps."""
        return self.transit
