"""Discipline `label`: each channel's records get labels by order of arrival.

It is the labelling end of an ordered channel (`ordered_label_beh` of "In-Order Message Delivery",
2011) as a pipeline. A shard is one of discipline `channel` in which every record passes without a
label: the number of its delivery is the label that it gets. `settings`, `plan`, `describe`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from streaming.disciplines.channels import CHANNEL
from streaming.disciplines.discipline import Fixed, Reader
from streaming.disciplines.label.settings import LabelPipeline

if TYPE_CHECKING:
    from streaming.disciplines.label.plan import LabelPlan


def _identity(settings: LabelPipeline) -> dict[str, Any]:
    return settings.model_dump(mode="json", include={"channel"})


def _plan(
    settings: LabelPipeline, _identity: Mapping[str, Any], common: dict[str, Any]
) -> LabelPlan:
    from streaming.disciplines.label.plan import LabelPlan  # noqa: PLC0415

    return LabelPlan(
        **common, commands=settings.commands, rules=settings.all_rules(), channel=settings.channel
    )


def _describe(plan: LabelPlan) -> Reader:
    from streaming.disciplines.channels.core import ChannelOperator  # noqa: PLC0415
    from streaming.disciplines.label.describe import describe  # noqa: PLC0415

    return ChannelOperator(plan).reader(lambda core: describe(core.shard))


LABEL = replace(
    CHANNEL,
    name="label",
    settings=LabelPipeline,
    operators=lambda settings: (
        *CHANNEL.operators(settings),
        "streaming.disciplines.label.plan",
    ),
    reasons=("missing-channel", "too-large", "refused"),
    events=("retired",),
    counted=(),
    shown=("channel", "epoch", "next", "active"),
    fixed={"channel": Fixed("set the pipeline's channel expression back")},
    identity=_identity,
    plan=_plan,
    describe=_describe,
    disorder=False,
)
