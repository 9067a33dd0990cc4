"""What users write for discipline `channel`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from sequencer.channels.rules import (
    CUSTOM_SEARCH_MIN,
    CUSTOM_WINDOW_DEFAULT,
    HELD_MAX,
    POLICIES,
    WAIT,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    Full,
    Rules,
    window_max,
)
from sequencer.labels import CUSTOM_LABELS_MAX
from streaming.disciplines.channels.labels import AnyLabels, Custom, Cyclic, Linear
from streaming.disciplines.channels.sql import sql_fault
from streaming.settings.fields import Expression, ValueField
from streaming.settings.pipeline import Pipeline
from streaming.settings.table import Number, Table
from streaming.settings.values import Duration, fault

CUSTOM_WINDOW_MAX = (CUSTOM_LABELS_MAX - CUSTOM_SEARCH_MIN) // 2
"""A custom sequence is searched two windows ahead, among the labels that it may have in all."""


class GapPolicy(Table):
    """What to do about missing labels that others wait for."""

    policy: Literal["wait", "skip", "fail"] = "wait"
    after: Duration | None = None

    @model_validator(mode="after")
    def _after_fits(self) -> GapPolicy:
        if self.policy == "wait" and self.after is not None:
            raise fault('has no meaning with policy "wait"; leave it out', "after")
        if self.policy != "wait" and self.after is None:
            raise fault(f'policy "{self.policy}" needs it; write for instance "5 s"', "after")
        return self


class Buffer(Table):
    """Bounds of one channel's buffer; ``window`` None is the largest sensible one."""

    held: Annotated[Number, Field(ge=1, le=HELD_MAX)] = 10_000
    window: Annotated[Number, Field(ge=1, le=WINDOW_MAX)] | None = None
    full: Literal["reject", "skip"] = "reject"


class ByChannel(Pipeline):
    """What the pipelines have in common whose records belong to channels."""

    channel: Expression = "key"

    @field_validator("channel", "label", check_fields=False)
    @classmethod
    def _sql(cls, value: str | ValueField) -> str | ValueField:
        if isinstance(value, str) and (wrong := sql_fault(value)):
            raise ValueError(wrong)
        return value


class ChannelPipeline(ByChannel):
    """Discipline ``channel``: each channel's messages in the order of their labels."""

    discipline: Literal["channel"]
    label: Expression = "header('label')"
    labels: Annotated[AnyLabels, Field(discriminator="kind")] = Linear()
    gap: GapPolicy = GapPolicy()
    buffer: Buffer = Buffer()
    duplicates: Literal["reject", "drop"] = "reject"
    unlabelled: Literal["reject", "pass"] = "reject"

    @field_validator("buffer")
    @classmethod
    def _window_fits(cls, value: Buffer, info: ValidationInfo) -> Buffer:
        labels = info.data.get("labels")
        if isinstance(labels, Cyclic):
            _check_window(value.window, window_max(labels.sequence().cycle), "window")
        elif isinstance(labels, Custom):
            _check_window(value.window, CUSTOM_WINDOW_MAX, "window")
        return value

    def try_out(self) -> None:
        """Import the function of custom labels, and ask it for labels."""
        self.rules()

    def understood(self) -> dict[str, Any]:
        """The settings with their defaults; the window is the one that will be used."""
        plain = super().understood()
        plain["buffer"]["window"] = self.rules().window
        return plain

    def rules(self) -> Rules:
        """The core's rules; ValueError where custom labels do not work (they are imported now)."""
        try:
            labels = self.labels.sequence()
        except ValueError as error:
            raise fault(str(error), "labels") from error
        limit = window_max(labels.cycle)
        default = CUSTOM_WINDOW_DEFAULT if labels.searched else WINDOW_DEFAULT
        window = min(default, limit) if self.buffer.window is None else self.buffer.window
        _check_window(window, limit, "buffer", "window")
        return Rules(
            labels=labels,
            gap=POLICIES[self.gap.policy](self.gap.after.ms) if self.gap.after else WAIT,
            held_max=self.buffer.held,
            window=window,
            full=Full(self.buffer.full),
            retire_after_ms=self.retire_after.ms,
            pass_unlabelled=self.unlabelled == "pass",
        )


def _check_window(window: int | None, limit: int, *at: str) -> None:
    if window is not None and window > limit:
        raise fault(
            f"{window} is too wide for these labels: ahead and past could not be told apart, or "
            f"labels not be found; write {limit} or less, or use a longer sequence",
            *at,
        )
