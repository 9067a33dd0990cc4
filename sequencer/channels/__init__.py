"""Ordered channels in bulk: many channels of one shard, one batch at a time.

`rules` what a pipeline wants (`globs`: of which channels), `state` what is remembered, `plain` the
definition (one record at a time, one channel), `step` the same over whole batches: `usual` channels
vectorised, `unusual` ones through the plain step; `arrivals` what came and what a record shows by
itself, `rows` the messages as columns, `commands` what operators do to channels, `runs` which
labels are missing and `wanted` asking for them, `happened` what a channel's records led to,
`disorder` how far out of order messages came, `delays` the gap time that follows from it,
`rejected` where rejects belong, `outcome` what a step returns.
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
