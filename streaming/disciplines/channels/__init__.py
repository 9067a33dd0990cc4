"""Discipline `channel`: each channel's messages in the order of their labels.

`settings`, `labels`, `sql` what users write; `plan` what workers know; `records` the way in,
`fields` what it reads from values;
`commands` what operators ask for, `input_commands` what records do; `core` the step of a shard;
`deliveries` what leaves for the output, `events` of channels; `codec` its state as bytes, large
parts of it in `shard_files`; `describe` the same for people; `waiting` who waits, for a quick look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from streaming.disciplines.channels.settings import ChannelPipeline
from streaming.disciplines.discipline import Described, Discipline, Fixed, Reader, StateMove
from streaming.disciplines.state_row import StateRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streaming.disciplines.channels.plan import ChannelPlan
    from streaming.disciplines.source import Source


def _identity(settings: ChannelPipeline) -> dict[str, Any]:
    labels = settings.labels.model_dump(mode="json", exclude={"settle"})
    channel = settings.model_dump(mode="json", include={"channel"})
    return {"labels": labels, **channel}


def _plan(
    settings: ChannelPipeline, _identity: Mapping[str, Any], common: dict[str, Any]
) -> ChannelPlan:
    from streaming.disciplines.channels.plan import ChannelPlan  # noqa: PLC0415

    return ChannelPlan(
        **common,
        commands=settings.commands,
        wanted=settings.wanted,
        rules=settings.all_rules(),
        channel=settings.channel,
        label=settings.label,
        input_commands=[*settings.input_commands],
    )


def _build(source: Source, plan: ChannelPlan) -> DataFrame:
    from streaming.disciplines.channels.core import order  # noqa: PLC0415
    from streaming.disciplines.channels.records import pack  # noqa: PLC0415

    packed = pack(source, plan)
    return order(packed.frame.unionByName(source.ticks()), plan, packed.read)


def _describe(plan: ChannelPlan) -> Reader:
    from streaming.disciplines.channels.core import ChannelOperator  # noqa: PLC0415
    from streaming.disciplines.channels.describe import describe  # noqa: PLC0415

    return ChannelOperator(plan).reader(lambda core: describe(core.shard, plan.rules))


def _waiting(settings: ChannelPipeline, texts: Iterable[str], most: int | None) -> Described:
    from streaming.disciplines.channels.waiting import describe_waiting  # noqa: PLC0415

    return describe_waiting(texts, settings.all_rules(), most)


def _all_waiting(plan: ChannelPlan, most: int | None) -> Callable[[int, StateRow], str]:
    from streaming.disciplines.channels.core import ChannelOperator  # noqa: PLC0415
    from streaming.disciplines.channels.waiting import whole_waiting  # noqa: PLC0415

    operator = ChannelOperator(plan)
    return lambda key, row: whole_waiting(operator.restored(key, row).shard.state, most)


def _rows(settings: ChannelPipeline) -> bool:
    from streaming.disciplines.channels.sql import has_expressions  # noqa: PLC0415

    return has_expressions(settings.channel, settings.label)


def _understand(session: SparkSession, plan: ChannelPlan) -> None:
    from streaming.disciplines.channels.records import understand  # noqa: PLC0415

    understand(session, plan)


def _operators(settings: ChannelPipeline) -> tuple[str, ...]:
    encodings = {each.encoding for each in settings.value_fields.values()}
    return (
        "streaming.disciplines.channels.core",
        *(f"streaming.values.{encoding}_values" for encoding in sorted(encodings)),
    )


def _reshard(_settings: ChannelPipeline) -> StateMove:
    from streaming.disciplines.channels.reshard import reshard  # noqa: PLC0415

    return StateMove(reshard, timed=True)


CHANNEL = Discipline(
    name="channel",
    settings=ChannelPipeline,
    key="channel",
    operators=_operators,
    reasons=(
        "missing-channel",
        "missing-label",
        "bad-label",
        "bad-epoch",
        "stale-epoch",
        "after-fin",
        "outside-window",
        "late",
        "duplicate",
        "buffer-full",
        "reset",
        "too-large",
        "refused",
    ),
    events=("gap", "fin", "epoch", "started", "retired"),
    counted=("passed", "notices", "commands", "asked", "answered"),
    shown=("channel", "epoch", "next", "sequence", "held", "missing", "held_since", "active"),
    fixed={
        "labels": Fixed("set the pipeline's labels back"),
        "channel": Fixed("set the pipeline's channel back"),
    },
    identity=_identity,
    plan=_plan,
    build=_build,
    describe=_describe,
    reshard=_reshard,
    waiting=_waiting,
    all_waiting=_all_waiting,
    disorder=True,
    rows=_rows,
    understand=_understand,
)
