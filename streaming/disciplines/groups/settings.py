"""What users write for discipline `group`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from streaming.settings.pipeline import Members, Pipeline, once
from streaming.settings.table import Number
from streaming.settings.values import (
    SUBSCRIBER,
    Member,
    OutputTopic,
    TopicName,
    fault,
    topic_fault,
)

NETWORK = "network"


class GroupPipeline(Pipeline):
    """Discipline ``group``: subscribers of overlapping groups see one order."""

    discipline: Literal["group"]
    output: OutputTopic
    transit: TopicName
    groups: dict[Member, Members] = Field(default_factory=dict)
    sequencing: Literal["batch", "network"] = "batch"
    sender_order: Literal["group", "across-groups"] = "group"
    nodes: Annotated[Number, Field(ge=1, le=1024)] = 4
    stamps: Annotated[bool, Field(strict=True)] = True
    notices: Annotated[bool, Field(strict=True)] = False
    input_commands: Annotated[
        tuple[Literal["add", "set", "remove", "join", "leave"], ...], AfterValidator(once)
    ] = ()

    @field_validator("groups")
    @classmethod
    def _members(
        cls, value: dict[str, tuple[str, ...]], info: ValidationInfo
    ) -> dict[str, tuple[str, ...]]:
        output = info.data.get("output", "")
        for group, members in value.items():
            for member in members:
                wrong = topic_fault(output.replace(SUBSCRIBER, member)) if output else None
                if wrong:
                    raise fault(f"for {member!r}, output {output} gives {wrong}", group)
        return value

    @classmethod
    def exchanges(cls, values: Mapping[str, Any]) -> bool:
        """Only sequencing nodes do."""
        return values.get("sequencing") == NETWORK

    def subscribers(self) -> list[str]:
        """The members of the first membership, sorted."""
        return sorted({member for members in self.groups.values() for member in members})

    @property
    def across_groups(self) -> bool:
        """Whether a sender's messages to different groups keep its order, too."""
        return self.sequencing != NETWORK or self.sender_order == "across-groups"

    @property
    def sequencing_nodes(self) -> int:
        """How many nodes there are: one numbers all where a sender's messages have one order."""
        return 1 if self.sender_order == "across-groups" else self.nodes
