"""What workers need to know of a pipeline of discipline `label`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sequencer.channels import Arrivals, ChannelEvent, Op, ShardState, step
from streaming.disciplines.channels.plan import ChannelPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelPlan(ChannelPlan):
    """A channel pipeline that gives labels and reads none.

    Pauses count: who reads the labels may run meanwhile, and must not forget a channel first.
    """

    discipline: ClassVar[str] = "label"
    counts_pauses: ClassVar[bool] = False
    gives_labels: ClassVar[bool] = True
    ops: ClassVar[tuple[Op, ...]] = (Op.RESET,)

    def before_batch(self, state: ShardState, now_ms: int) -> tuple[ShardState, list[ChannelEvent]]:
        """Forget the channels that were idle for `retire_after`, also if their records come now."""
        due_ms = state.due_ms(self.rules)
        if due_ms is None or due_ms > now_ms:
            return state, []
        none = pa.nulls(0, pa.binary())
        outcome = step(state, Arrivals(none, none, none, np.zeros(0, np.bool_)), now_ms, self.rules)
        return outcome.state, outcome.events
