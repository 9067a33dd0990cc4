"""The configuration file as pydantic models: one class for each table."""

from __future__ import annotations

import importlib
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sequencer.channels.rules import (
    CUSTOM_WINDOW_DEFAULT,
    HELD_MAX,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    Full,
    Gap,
    Rules,
    window_max,
)
from sequencer.labels import LABEL_MAX, CustomLabels, CyclicLabels, Labels, LinearLabels
from streaming.config.values import (
    Duration,
    Member,
    Name,
    OutputTopic,
    PositiveDuration,
    Span,
    TopicName,
)

Number = Annotated[int, Field(strict=True)]


class Table(BaseModel):
    """A table of the file: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class Service(Table):
    """`[service]`: what all pipelines share."""

    name: Name = "sequencer"
    checkpoint: Annotated[str, Field(min_length=1)] = "var/checkpoints"
    trigger: Duration = Span(200)
    shards: Annotated[Number, Field(ge=1, le=1024)] = 16
    batch_records_max: Annotated[Number, Field(ge=1, le=5_000_000)] = 500_000
    delivery: Literal["exactly-once", "at-least-once"] = "exactly-once"
    create_topics: Annotated[bool, Field(strict=True)] = True
    header_prefix: Annotated[str, Field(max_length=100)] = ""


class Kafka(Table):
    """`[kafka]`: where Kafka is and how to reach it. Properties may hold secrets: never shown."""

    bootstrap_servers: Annotated[str, Field(min_length=1)] = "localhost:9092"
    properties: dict[str, str | bool | int | float] = Field(default_factory=dict, repr=False)


class Linear(Table):
    """Labels start, start + step, …"""

    kind: Literal["linear"] = "linear"
    start: Annotated[Number, Field(ge=0, le=LABEL_MAX)] = 0
    step: Annotated[Number, Field(ge=1, le=LABEL_MAX)] = 1

    def sequence(self) -> Labels:
        """The label sequence."""
        return LinearLabels(self.start, self.step)


class Cyclic(Table):
    """The same modulo a cycle."""

    kind: Literal["cyclic"]
    start: Annotated[Number, Field(ge=0)] = 0
    step: Annotated[Number, Field(ge=1)] = 1
    modulus: Annotated[Number, Field(ge=4, le=2**62)]

    @model_validator(mode="after")
    def _possible(self) -> Cyclic:
        self.sequence()
        return self

    def sequence(self) -> Labels:
        """The label sequence."""
        return CyclicLabels(self.modulus, self.start, self.step)


class Custom(Table):
    """Labels made by a function of the user's."""

    kind: Literal["custom"]
    initial: Annotated[str, Field(min_length=1)]
    next: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]

    def sequence(self) -> Labels:
        """The label sequence; ValueError where the function is not to be had or makes no labels."""
        module, _, name = self.next.partition(":")
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ValueError(
                f"next: {self.next} cannot be imported ({error}); write package.module:function, "
                "importable where the service runs (PYTHONPATH)"
            ) from error
        try:
            return CustomLabels(self.initial, function)
        except Exception as error:
            raise ValueError(f"next: {self.next} does not make labels: {error}") from error


class GapPolicy(Table):
    """What to do about missing labels that others wait for."""

    policy: Literal["wait", "skip", "fail"] = "wait"
    after: Duration | None = None

    @model_validator(mode="after")
    def _after_fits(self) -> GapPolicy:
        if self.policy == "wait" and self.after is not None:
            raise ValueError('after has no meaning with policy "wait"; leave it out')
        if self.policy != "wait" and self.after is None:
            raise ValueError(f'policy "{self.policy}" needs after, for instance after = "5 s"')
        return self


class Buffer(Table):
    """Bounds of one channel's buffer; ``window`` None is the largest sensible one."""

    held: Annotated[Number, Field(ge=1, le=HELD_MAX)] = 10_000
    window: Annotated[Number, Field(ge=1, le=WINDOW_MAX)] | None = None
    full: Literal["reject", "skip"] = "reject"


class Pipeline(Table):
    """What pipelines of every discipline have. Topics left out are named after the pipeline."""

    input: Annotated[tuple[TopicName, ...], Field(min_length=1)]
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

    @field_validator("input")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(value)) < len(value):
            raise ValueError("names a topic twice; name each once")
        return value

    @property
    def written(self) -> dict[str, str]:
        """The topics that the pipeline writes to, by role."""
        return {"output": self.output, "rejects": self.rejects, "events": self.events}


class ChannelPipeline(Pipeline):
    """Discipline ``channel``: each channel's messages in the order of their labels."""

    discipline: Literal["channel"]
    channel: Annotated[str, Field(min_length=1)] = "key"
    label: Annotated[str, Field(min_length=1)] = "header('label')"
    labels: Annotated[Linear | Cyclic | Custom, Field(discriminator="kind")] = Linear()
    gap: GapPolicy = GapPolicy()
    buffer: Buffer = Buffer()
    duplicates: Literal["reject", "drop"] = "reject"

    @model_validator(mode="after")
    def _window_fits(self) -> ChannelPipeline:
        if isinstance(self.labels, Cyclic):
            cycle = self.labels.sequence().cycle
            _check_window(self.buffer.window, cycle)
        return self

    def rules(self) -> Rules:
        """The core's rules; ValueError where custom labels do not work."""
        labels = self.labels.sequence()
        window = self.buffer.window
        if window is None:
            default = CUSTOM_WINDOW_DEFAULT if labels.searched else WINDOW_DEFAULT
            window = min(default, window_max(labels.cycle))
        _check_window(window, labels.cycle)
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
    groups: dict[Member, Annotated[tuple[Member, ...], Field(min_length=1)]] = Field(
        default_factory=dict
    )
    sender_order: Literal["group", "across-groups"] = "group"
    nodes: Annotated[Number, Field(ge=1, le=1024)] = 4


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


def _check_window(window: int | None, cycle: int | None) -> None:
    limit = window_max(cycle)
    if window is not None and window > limit:
        raise ValueError(
            f"buffer.window: {window} is half of the labels' cycle ({cycle}) or more, so ahead "
            f"and past cannot be told apart; write {limit} or less, or use a longer cycle"
        )
