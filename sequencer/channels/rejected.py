"""The places of rejects in their channels: the delivery before, and the gap with their label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sequencer.channels.happened import Results
from sequencer.channels.outcome import Reason, Rejected
from sequencer.channels.rows import Table
from sequencer.channels.rules import Rules
from sequencer.channels.state import NONE, Bools, Int64s
from sequencer.channels.unusual import PASSES
from sequencer.channels.usual import Settled, moments
from sequencer.sorting import order_by


def usual_rejects(
    table: Table,
    settled: Settled,
    last_before: Int64s,
    codes: Int64s,
    reasons: NDArray[np.uint8],
    held_count: int,
) -> Rejected:
    """Return the rejects of the vectorised part, with their places.

    ``codes``: the channel's row of each arrival, -1 without one. ``last_before``: for channels
    that were known before this batch, the sequence of the last delivery before it.
    """
    at = np.flatnonzero(reasons < PASSES)
    row, channel = at + held_count, codes[at]
    incarnation, sequence = np.zeros(len(at), dtype=np.int64), np.full(len(at), NONE)
    known = np.flatnonzero(channel >= 0)
    if len(known):
        channel = channel[known]
        incarnation[known] = table.columns["incarnation"][channel]
        latest = _latest(row[known], channel, settled, held_count)
        before = np.append(last_before, NONE)[np.minimum(channel, len(last_before))]
        sequence[known] = np.where(latest == NONE, before, latest)
    return Rejected(row, reasons[at], incarnation, sequence)


def _latest(row: Int64s, channel: Int64s, settled: Settled, held_count: int) -> Int64s:
    """Return the sequence of this batch's last delivery in each row's channel before it; or -1.

    A message is delivered when the last of itself and of those before it arrives. One channel, of
    which row 0 was held:

        delivered rows      2  0  4  3
        delivered at        2  2  4  4      (running maximum of arrivals)
        rejects: row 1 comes before all of them, row 5 behind the fourth
    """
    found = np.full(len(row), NONE)
    has_rejects = np.zeros(len(settled.unusual), dtype=np.bool_)
    has_rejects[channel] = True
    of = np.flatnonzero(has_rejects[settled.delivered_channel])
    if not len(of):
        return found
    its_channel = settled.delivered_channel[of]
    at = moments(settled.delivered_row[of], its_channel, held_count)
    stride = int(max(row.max(), at.max())) + 2  # keeps the channels apart
    last = np.searchsorted(at + its_channel * stride, row + channel * stride) - 1
    same = (last >= 0) & (its_channel[last] == channel)
    found[same] = settled.sequence[of[last[same]]]
    return found


def with_plain(usual: Rejected, results: Results) -> Rejected:
    """Return the rejects of the vectorised part and of the plain step, in order of arrival."""
    plain = np.array(results.rejected, dtype=np.int64).reshape(-1, 4)
    if not len(plain):
        return usual
    own = np.stack([usual.row, usual.reason.astype(np.int64), usual.incarnation, usual.sequence])
    both = np.concatenate([own.T, plain])
    row, reason, incarnation, sequence = both[order_by(both[:, 0])].T
    return Rejected(row, reason.astype(np.uint8), incarnation, sequence, results.gaps)


def dropped(
    table: Table, rejected: Rejected, codes: Int64s, held_count: int, rules: Rules
) -> Bools:
    """Return which rejects, all of them arrivals, are duplicates that are only counted."""
    only_counted: Bools = rejected.reason == Reason.DUPLICATE
    channel = codes[rejected.row[only_counted] - held_count]
    only_counted[only_counted] = table.limit(rules, "drop_duplicates", channel).astype(np.bool_)
    return only_counted
