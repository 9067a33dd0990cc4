"""The pipelines of the configuration file as pydantic models: one class for each discipline."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from sequencer.channels.rules import (
    CUSTOM_SEARCH_MIN,
    CUSTOM_WINDOW_DEFAULT,
    WINDOW_DEFAULT,
    Full,
    Gap,
    Rules,
    window_max,
)
from sequencer.labels import CUSTOM_LABELS_MAX
from streaming.config.labels import Custom, Cyclic, Linear
from streaming.config.sql import sql_fault
from streaming.config.tables import Buffer, GapPolicy, Number, Table
from streaming.config.values import (
    SUBSCRIBER,
    Member,
    OutputTopic,
    PositiveDuration,
    Span,
    Text,
    TopicName,
    fault,
    topic_fault,
)

CUSTOM_WINDOW_MAX = (CUSTOM_LABELS_MAX - CUSTOM_SEARCH_MIN) // 2
"""A custom sequence is searched two windows ahead, among the labels that it may have in all."""


def _once(names: tuple[str, ...]) -> tuple[str, ...]:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise ValueError(f"names {name!r} twice; name each once")
    return names


Members = Annotated[tuple[Member, ...], Field(min_length=1), AfterValidator(_once)]


class Pipeline(Table):
    """What pipelines of every discipline have. Topics left out are named after the pipeline."""

    input: Annotated[tuple[TopicName, ...], Field(min_length=1), AfterValidator(_once)]
    output: TopicName
    rejects: TopicName
    events: TopicName
    retire_after: PositiveDuration = Span(7 * 86_400_000)

    @model_validator(mode="before")
    @classmethod
    def _default_topics(cls, values: Any, info: Any) -> Any:
        name = (info.context or {}).get("pipeline", "")
        if not isinstance(values, dict):
            return values
        defaults = {"input": f"{name}.in", "output": f"{name}.out"}
        defaults |= {
            each: f"{name}.{each}" for each in ("rejects", "events", "commands", "transit")
        }
        known = {key: value for key, value in defaults.items() if key in cls.model_fields}
        return {**known, **values}

    @field_validator("input", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @property
    def written(self) -> dict[str, str]:
        """The topics that the pipeline writes to, by role."""
        found = {"output": self.output, "rejects": self.rejects, "events": self.events}
        transit = getattr(self, "transit", None)
        return found if transit is None else {**found, "transit": transit}

    def topics(self) -> list[tuple[str, str]]:
        """Role and name of each topic that the pipeline reads or writes, as far as known.

        A name with ``{subscriber}`` stands for the topics of the configuration's subscribers.
        """
        found = [("input", each) for each in self.input]
        for role in ("output", "rejects", "events", "commands", "transit"):
            name = getattr(self, role, None)
            if name is not None:
                members = self.subscribers() if SUBSCRIBER in name else [""]
                found += [(role, name.replace(SUBSCRIBER, each)) for each in members]
        return found

    def subscribers(self) -> list[str]:
        """The subscribers that the configuration names."""
        return []


class ChannelPipeline(Pipeline):
    """Discipline ``channel``: each channel's messages in the order of their labels."""

    discipline: Literal["channel"]
    channel: Text = "key"
    label: Text = "header('label')"
    labels: Annotated[Linear | Cyclic | Custom, Field(discriminator="kind")] = Linear()
    gap: GapPolicy = GapPolicy()
    buffer: Buffer = Buffer()
    duplicates: Literal["reject", "drop"] = "reject"

    @field_validator("channel", "label")
    @classmethod
    def _sql(cls, value: str) -> str:
        if wrong := sql_fault(value):
            raise ValueError(wrong)
        return value

    @field_validator("buffer")
    @classmethod
    def _window_fits(cls, value: Buffer, info: ValidationInfo) -> Buffer:
        labels = info.data.get("labels")
        if isinstance(labels, Cyclic):
            _check_window(value.window, window_max(labels.sequence().cycle), "window")
        elif isinstance(labels, Custom):
            _check_window(value.window, CUSTOM_WINDOW_MAX, "window")
        return value

    def rules(self) -> Rules:
        """The core's rules; ValueError where custom labels do not work (they are imported now)."""
        labels = self.labels.sequence()
        limit = window_max(labels.cycle)
        default = CUSTOM_WINDOW_DEFAULT if labels.searched else WINDOW_DEFAULT
        window = min(default, limit) if self.buffer.window is None else self.buffer.window
        _check_window(window, limit, "buffer", "window")
        return Rules(
            labels=labels,
            gap=Gap(self.gap.policy),
            gap_after_ms=self.gap.after.ms if self.gap.after else 0,
            held_max=self.buffer.held,
            window=window,
            full=Full(self.buffer.full),
            retire_after_ms=self.retire_after.ms,
        )


class GroupPipeline(Pipeline):
    """Discipline ``group``: subscribers of overlapping groups see one order."""

    discipline: Literal["group"]
    output: OutputTopic
    commands: TopicName
    transit: TopicName
    groups: dict[Member, Members] = Field(default_factory=dict)
    sender_order: Literal["group", "across-groups"] = "group"
    nodes: Annotated[Number, Field(ge=1, le=1024)] = 4

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

    def subscribers(self) -> list[str]:
        """The members of the first membership, sorted."""
        return sorted({member for members in self.groups.values() for member in members})

    @property
    def sequencing_nodes(self) -> int:
        """How many nodes there are: one numbers all where a sender's messages have one order."""
        return 1 if self.sender_order == "across-groups" else self.nodes


class MulticastPipeline(Pipeline):
    """Discipline ``multicast``: any sender to any destinations, in one order."""

    discipline: Literal["multicast"]
    commands: TopicName
    transit: TopicName
    order: Literal["clock", "counter"] = "clock"


DISCIPLINES: dict[str, type[Pipeline]] = {
    "channel": ChannelPipeline,
    "group": GroupPipeline,
    "multicast": MulticastPipeline,
}


def _check_window(window: int | None, limit: int, *at: str) -> None:
    if window is not None and window > limit:
        raise fault(
            f"{window} is too wide for these labels: ahead and past could not be told apart, or "
            f"labels not be found; write {limit} or less, or use a longer sequence",
            *at,
        )
