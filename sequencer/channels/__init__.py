"""Ordered channels in bulk: many channels of one shard, one batch at a time.

`rules`: a pipeline's rules (`globs`: their channels); `state`: a shard's state; `plain`: the
definition (one record at a time, one channel); `step`: the same over whole batches, with `usual`
channels vectorised, `unusual` ones through the plain step; `arrivals`: a batch's input and faults
of single records; `rows`: messages as columns; `commands`: operators' commands; `runs`: missing
labels; `wanted`: requests for them; `happened`: the results of a channel's records; `disorder`: how
far out of order messages arrived; `delays`: the gap time that follows from them; `rejected`: the
places of rejects; `outcome`: the result of a step.
"""

from sequencer.channels.arrivals import Arrivals
from sequencer.channels.commands import ChannelCommand, Op
from sequencer.channels.disorder import Disorder
from sequencer.channels.outcome import (
    REASONS,
    Answer,
    ChannelEvent,
    Delivered,
    GapFailure,
    GapName,
    Outcome,
    Reason,
    Refusal,
    Rejected,
)
from sequencer.channels.rules import WAIT, Fail, Full, GapPolicy, Rules, Skip, Wait
from sequencer.channels.state import Held, ShardState
from sequencer.channels.step import step

__all__ = [
    "REASONS",
    "WAIT",
    "Answer",
    "Arrivals",
    "ChannelCommand",
    "ChannelEvent",
    "Delivered",
    "Disorder",
    "Fail",
    "Full",
    "GapFailure",
    "GapName",
    "GapPolicy",
    "Held",
    "Op",
    "Outcome",
    "Reason",
    "Refusal",
    "Rejected",
    "Rules",
    "ShardState",
    "Skip",
    "Wait",
    "step",
]
