"""What users write for discipline `multicast`."""

from __future__ import annotations

from typing import Any, Literal

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
    commands: TopicName
    transit: TopicName
    order: Literal["batch", "clock", "counter"] = "batch"

    @property
    def commands_topic(self) -> str:
        """Where nodes are created and destroyed, and handles released."""
        return self.commands

    @property
    def transit_topic(self) -> str | None:
        """By which peers send each other a protocol's steps; the order of the batch has none."""
        return None if self.order == "batch" else self.transit

    def understood(self) -> dict[str, Any]:
        """The settings with their defaults, as JSON has them; without a topic that is not used."""
        unused = {"transit"} if self.transit_topic is None else set()
        return self.model_dump(mode="json", exclude=unused)
