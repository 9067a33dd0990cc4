"""What users write for discipline `multicast`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator

from streaming.settings.pipeline import Pipeline, once
from streaming.settings.values import TopicName


class MulticastPipeline(Pipeline):
    """Discipline ``multicast``: any sender to any destinations, in one order."""

    discipline: Literal["multicast"]
    transit: TopicName
    order: Literal["batch", "clock", "counter"] = "batch"
    input_commands: Annotated[
        tuple[Literal["create-node", "destroy-node", "release"], ...], AfterValidator(once)
    ] = ()

    @classmethod
    def exchanges(cls, values: Mapping[str, Any]) -> bool:
        """The orders of clocks and of the counter do."""
        return bool(values.get("order", "batch") != "batch")

    def understood(self) -> dict[str, Any]:
        """The settings with their defaults, as JSON has them; without a topic that is not used."""
        unused = {"transit"} if self.transit_topic is None else set()
        return self.model_dump(mode="json", exclude=unused)
