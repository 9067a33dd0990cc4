"""A batch's input, and the faults that each record has independently of all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sequencer.channels.commands import PlacedCommand
from sequencer.channels.outcome import Reason
from sequencer.channels.rows import Table
from sequencer.channels.rules import Rules
from sequencer.channels.state import NONE, Bools, Int64s
from sequencer.channels.unusual import FAULTLESS, PASSES
from sequencer.custom_labels import CustomLabels
from sequencer.labels import LABEL_MAX, parse_numbers

Reasons = NDArray[np.uint8]
"""Each arrival's fault, independent of other records; else FAULTLESS or PASSES."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """A shard's input of one batch in order of arrival; parallel.

    ``channel``, ``label`` and ``epoch`` are binary arrays (null: missing; a missing epoch is 0),
    ``fin`` a bool array.
    """

    channel: pa.Array
    label: pa.Array
    epoch: pa.Array
    fin: Bools

    def __len__(self) -> int:
        return len(self.channel)


def judge_alone(
    arrivals: Arrivals,
    codes: Int64s,
    table: Table,
    held_count: int,
    rules: Rules,
    placed: Sequence[PlacedCommand],
) -> tuple[Reasons, Int64s, Int64s]:
    """Find the records' own faults; return (reasons, positions in the cycle, epochs).

    A record that passes without a label has the reason PASSES, the position NONE, the epoch 0.
    """
    blank = pa.scalar(b"", arrivals.label.type)
    texts = pc.fill_null(arrivals.label, blank)
    if isinstance(rules.labels, CustomLabels) and rules.labels.searched:
        # The farthest that a frontier may move within this batch: over all arrivals and held
        # messages, and with each command at most over the search range. The plain step finds
        # labels that are too far at their turn.
        moves = np.bincount(codes[codes >= 0], minlength=len(table.keys)) + held_count
        search = max(each.search for each in rules.each) * (1 + len(placed))
        near = np.append(table.columns["frontier"], 0)[codes]
        reach = np.append(moves, 0)[codes] + search
        in_cycle = rules.labels.positions(texts, reach, near)
        in_cycle[_out_of_reach(in_cycle, reach, near, rules.labels)] = NONE
    else:
        in_cycle = rules.labels.positions(texts)
    if arrivals.epoch.null_count == len(arrivals):
        epoch = np.zeros(len(arrivals), dtype=np.int64)
    else:
        epoch = parse_numbers(pc.fill_null(arrivals.epoch, pa.scalar(b"0", arrivals.epoch.type)))
    reasons = np.full(len(arrivals), FAULTLESS)
    if rules.settle_ms is not None:
        in_cycle[in_cycle == LABEL_MAX] = NONE  # a frontier cannot be behind it
    if not rules.labels.searched:  # else the label may be too far at its turn, which counts first
        reasons[epoch < 0] = Reason.BAD_EPOCH
    reasons[in_cycle < 0] = Reason.BAD_LABEL
    if arrivals.label.null_count:
        missing = pc.is_null(arrivals.label).to_numpy(zero_copy_only=False)
        reasons[missing] = PASSES if rules.pass_unlabelled else Reason.MISSING_LABEL
        if rules.pass_unlabelled:
            in_cycle[missing], epoch[missing] = NONE, 0
    reasons[codes < 0] = Reason.MISSING_CHANNEL
    return reasons, in_cycle, epoch


def _out_of_reach(in_cycle: Int64s, reach: Int64s, near: Int64s, labels: CustomLabels) -> Bools:
    """Return which labels are known only because another channel of this process got that far.

    The result of a repeated batch must not depend on what the process has seen before.
    """
    ahead, behind = in_cycle - near, near - in_cycle
    if labels.cycle is None:
        found = (ahead < reach) & (behind <= reach)
    else:
        found = (ahead % labels.cycle < reach) | (behind % labels.cycle <= reach)
    return ~(found | (in_cycle < np.maximum(reach, labels.always)))
