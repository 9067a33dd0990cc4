"""What workers need to know of a pipeline of discipline `label`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from sequencer.channels import Op
from streaming.disciplines.channels.plan import ChannelPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPlan(ChannelPlan):
    """A channel pipeline that gives labels and reads none."""

    discipline: ClassVar[str] = "label"
    gives_labels: ClassVar[bool] = True
    ops: ClassVar[tuple[Op, ...]] = (Op.RESET,)
