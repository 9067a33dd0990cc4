"""What users write for discipline `channel`."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from sequencer.channels.delays import Quantile
from sequencer.channels.globs import first_match_of
from sequencer.channels.rules import (
    CUSTOM_WINDOW_DEFAULT,
    CUSTOM_WINDOW_MAX,
    HELD_MAX,
    POLICIES,
    RULES_MAX,
    WAIT,
    WINDOW_DEFAULT,
    WINDOW_MAX,
    Full,
    GapPolicy,
    Rules,
    window_max,
)
from streaming.disciplines.channels.fields import Fields, fields_of, need_schemas
from streaming.disciplines.channels.labels import AnyLabels, Custom, Cyclic, Linear
from streaming.disciplines.channels.sql import sql_fault
from streaming.settings.fields import PROTOBUF, Expression, ValueField
from streaming.settings.pipeline import Pipeline, once
from streaming.settings.table import Number, Table
from streaming.settings.values import TOPIC_MAX, Duration, PositiveDuration, Text, TopicName, fault
from streaming.values.schemas import missing_packages


class SetsItself(Table):
    """A gap time that follows from how late messages came."""

    quantile: Annotated[float, Field(ge=0.5, le=0.9999)]
    least: Duration
    most: Duration

    @model_validator(mode="after")
    def _ordered(self) -> SetsItself:
        if self.least > self.most:
            raise fault(f"is longer than most, {self.most}; write that or less", "least")
        return self

    def __str__(self) -> str:
        return f"the quantile {self.quantile}, {self.least} … {self.most}"


def _kind_of_time(value: Any) -> str:
    return "[table]" if isinstance(value, dict | SetsItself) else "[time]"


GapTime = Annotated[
    Annotated[Duration, Tag("[time]")] | Annotated[SetsItself, Tag("[table]")],
    Discriminator(_kind_of_time),
]


class Gap(Table):
    """What to do about missing labels that others wait for."""

    policy: Literal["wait", "skip", "fail"] = "wait"
    after: GapTime | None = None
    ask_after: PositiveDuration | None = None

    @model_validator(mode="after")
    def _ask_fits(self) -> Gap:
        longest = self.after.most if isinstance(self.after, SetsItself) else self.after
        if self.ask_after is not None and longest is not None and self.ask_after >= longest:
            raise fault(
                f"nobody would be asked: labels are given up after {longest}; write less",
                "ask_after",
            )
        return self

    @model_validator(mode="after")
    def _after_fits(self) -> Gap:
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


class ChannelRule(Table):
    """Rules of the channels whose text matches a glob; what is left out is as in the pipeline.

    ``gap`` stands as a whole; of ``buffer`` each key by itself.
    """

    channel: Annotated[Text, Field(max_length=TOPIC_MAX)]
    gap: Gap | None = None
    buffer: Buffer | None = None
    duplicates: Literal["reject", "drop"] | None = None
    retire_after: PositiveDuration | None = None

    @field_validator("channel")
    @classmethod
    def _glob(cls, value: str) -> str:
        first_match_of(b"", (value,))
        return value


class ByChannel(Pipeline):
    """What the pipelines have in common whose records belong to channels."""

    channel: Expression = "key"

    @field_validator("channel", "label", check_fields=False)
    @classmethod
    def _sql(cls, value: str | ValueField) -> str | ValueField:
        if isinstance(value, str) and (wrong := sql_fault(value)):
            raise ValueError(wrong)
        return value

    @property
    def value_fields(self) -> Fields:
        """The channel, where it is a field of values."""
        return fields_of(self.channel, "key")

    @property
    def needs_registry(self) -> bool:
        """Whether there are fields of values that take a schema."""
        return need_schemas(self.value_fields)

    def try_out(self) -> None:
        """Look for packages that fields of values take."""
        for name, each in self.value_fields.items():
            if each.encoding == PROTOBUF and (missing := missing_packages()):
                raise fault(
                    f"needs {' and '.join(missing)}; pip install 'spark-sequencer[protobuf]'",
                    name,
                    PROTOBUF,
                )


def _with_kind(labels: Any) -> Any:
    is_linear = isinstance(labels, dict) and labels.keys() <= Linear.model_fields.keys()
    return {"kind": "linear", **labels} if is_linear else labels


LINEAR_UNLESS_SAID = BeforeValidator(_with_kind)


class ChannelPipeline(ByChannel):
    """Discipline ``channel``: each channel's messages in the order of their labels."""

    discipline: Literal["channel"]
    label: Expression = "header('label')"
    labels: Annotated[AnyLabels, Field(discriminator="kind"), LINEAR_UNLESS_SAID] = Linear()
    gap: Gap = Gap()
    buffer: Buffer = Buffer()
    duplicates: Literal["reject", "drop"] = "reject"
    unlabelled: Literal["reject", "pass"] = "reject"
    notices: Annotated[bool, Field(strict=True)] = False
    wanted: TopicName
    input_commands: Annotated[
        tuple[Literal["skip", "seed", "reset"], ...], AfterValidator(once)
    ] = ()
    rules: Annotated[tuple[ChannelRule, ...], Field(max_length=RULES_MAX)] = ()

    @field_validator("buffer")
    @classmethod
    def _window_fits(cls, value: Buffer, info: ValidationInfo) -> Buffer:
        _check_window(value.window, _window_max(info.data.get("labels")), "window")
        return value

    @field_validator("rules")
    @classmethod
    def _rules_fit(
        cls, value: tuple[ChannelRule, ...], info: ValidationInfo
    ) -> tuple[ChannelRule, ...]:
        limit = _window_max(info.data.get("labels"))
        globs = [rule.channel for rule in value]
        for at, rule in enumerate(value):
            if rule.channel in globs[:at]:
                raise fault(
                    f"{rule.channel!r} stands in rules[{globs.index(rule.channel)}], which counts; "
                    "leave this one out, or put both into one",
                    at,
                    "channel",
                )
            if rule.buffer is not None:
                _check_window(rule.buffer.window, limit, at, "buffer", "window")
        return value

    @property
    def asks(self) -> bool:
        """Whether missing labels are asked for, so that there is a topic ``wanted``."""
        gaps = (self.gap, *(rule.gap for rule in self.rules))
        return any(gap is not None and gap.ask_after is not None for gap in gaps)

    @property
    def written(self) -> dict[str, str]:
        """The topics that the pipeline writes to, by role."""
        return super().written | ({"wanted": self.wanted} if self.asks else {})

    @property
    def value_fields(self) -> Fields:
        """The channel and the label, as far as they are fields of values."""
        return fields_of(self.channel, self.label)

    def try_out(self) -> None:
        """Import the function of custom labels, and ask it for labels; look for packages."""
        self.all_rules()
        super().try_out()

    def understood(self) -> dict[str, Any]:
        """The settings with their defaults; the window is the one that will be used.

        A rule has all of its values, also those that are the pipeline's.
        """
        plain = super().understood()
        plain["buffer"]["window"] = self.all_rules().window
        names = ("gap", "buffer", "duplicates", "retire_after")
        own = {name: plain[name] for name in names}
        for rule, written in zip(plain["rules"], self.rules, strict=True):
            chosen = written.model_dump(mode="json", exclude_unset=True)
            buffer = {**own["buffer"], **chosen.get("buffer", {})}
            rule |= {**own, **chosen, "buffer": buffer}
        return plain

    def drops(self, channel: bytes) -> bool:
        """Return whether duplicates of a channel are dropped, by its rule or the pipeline's."""
        globs = tuple(rule.channel for rule in self.rules)
        number = first_match_of(channel, globs)
        own = self.rules[number - 1].duplicates if number else None
        return (own or self.duplicates) == "drop"

    def all_rules(self) -> Rules:
        """The core's rules; ValueError where custom labels do not work (they are imported now)."""
        try:
            labels = self.labels.sequence()
        except ValueError as error:
            raise fault(str(error), "labels") from error
        limit = window_max(labels.cycle)
        default = CUSTOM_WINDOW_DEFAULT if labels.searched else WINDOW_DEFAULT
        window = min(default, limit) if self.buffer.window is None else self.buffer.window
        _check_window(window, limit, "buffer", "window")
        settle = getattr(self.labels, "settle", None)
        own = Rules(
            labels=labels,
            gap=_policy(self.gap),
            held_max=self.buffer.held,
            window=window,
            full=Full(self.buffer.full),
            retire_after_ms=self.retire_after.ms,
            pass_unlabelled=self.unlabelled == "pass",
            drop_duplicates=self.duplicates == "drop",
            notices=self.notices,
            settle_ms=settle.ms if settle else None,
            ask_ms=_ask_ms(self.gap),
        )
        return replace(own, others=tuple((rule.channel, _other(rule, own)) for rule in self.rules))


def _policy(gap: Gap) -> GapPolicy:
    if gap.after is None:
        return WAIT
    if isinstance(gap.after, SetsItself):
        by = Quantile(gap.after.quantile, gap.after.least.ms, gap.after.most.ms)
        return POLICIES[gap.policy](by.most_ms, by)
    return POLICIES[gap.policy](gap.after.ms)


def _ask_ms(gap: Gap) -> int | None:
    return gap.ask_after.ms if gap.ask_after else None


def _other(rule: ChannelRule, own: Rules) -> Rules:
    """The core's rules of some channels; what is not written is as in the pipeline's ``own``."""
    buffer = {} if rule.buffer is None else rule.buffer.model_dump(exclude_unset=True)
    return replace(
        own,
        gap=own.gap if rule.gap is None else _policy(rule.gap),
        ask_ms=own.ask_ms if rule.gap is None else _ask_ms(rule.gap),
        held_max=buffer.get("held", own.held_max),
        window=buffer.get("window") or own.window,
        full=Full(buffer.get("full", own.full)),
        retire_after_ms=rule.retire_after.ms if rule.retire_after else own.retire_after_ms,
        drop_duplicates=rule.duplicates == "drop" if rule.duplicates else own.drop_duplicates,
    )


def _window_max(labels: Any) -> int:
    """The widest window that labels allow, without a function of the user's being imported."""
    if isinstance(labels, Cyclic):
        return window_max(labels.sequence().cycle)
    return CUSTOM_WINDOW_MAX if isinstance(labels, Custom) else WINDOW_MAX


def _check_window(window: int | None, limit: int, *at: str | int) -> None:
    if window is not None and window > limit:
        raise fault(
            f"{window} is too wide for these labels: ahead and past could not be distinguished, or "
            f"labels not be found; write {limit} or less, or use a longer sequence",
            *at,
        )
