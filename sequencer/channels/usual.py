"""Channels in which nothing unusual happens: all their messages together, vectorised.

A message is deliverable exactly where its distance from the frontier equals its rank among the
channel's messages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sequencer.channels.disorder import Disorder, measure
from sequencer.channels.rows import Rows, Table
from sequencer.channels.rules import Rules
from sequencer.channels.state import NONE, Bools, Int64s
from sequencer.sorting import order_by, starts_of


@dataclass(slots=True)
class Settled:
    """The vectorised part's results; ``unusual`` also has the channels whose buffer filled up.

    ``held`` counts rows as they were given, sorted by (channel, position).
    """

    unusual: Bools
    delivered_row: Int64s
    delivered_channel: Int64s
    sequence: Int64s
    held: Int64s
    duplicate_row: Int64s
    disorder: Disorder


def settle(
    table: Table,
    rows: Rows,
    held_count: int,
    touched: Bools,
    unusual: Bools,
    rules: Rules,
    now_ms: int,
) -> Settled:
    """Deliver, hold or drop as duplicate all messages of usual channels that something came for."""
    columns = table.columns
    which = np.flatnonzero((touched & ~unusual)[rows.channel])
    channel = rows.channel[which]
    ahead = np.maximum(rows.position[which] - columns["frontier"][channel], -1)
    order = order_by(channel, ahead)
    which, channel, ahead = which[order], channel[order], ahead[order]
    keep = ahead >= 0
    keep[1:] &= (channel[1:] != channel[:-1]) | (ahead[1:] != ahead[:-1])
    duplicate = which[~keep]
    if len(duplicate):
        which, channel, ahead = which[keep], channel[keep], ahead[keep]
    waits_ms = now_ms - rows.since_ms[which]
    disorder = measure(channel, ahead, rows.row[which], waits_ms, held_count)
    starts = starts_of(channel)
    sizes = np.diff(starts, append=len(which))
    rank = np.arange(len(which)) - np.repeat(starts, sizes)
    ready = ahead == rank

    over = _overfull(rows.row[which], starts, sizes, ready, held_count, rules.held_max)
    if over.any():
        full = np.zeros(len(touched), dtype=np.bool_)
        full[channel[starts[over]]] = True
        unusual = unusual | full
        fine = ~full[channel]
        which, channel, ready, rank = which[fine], channel[fine], ready[fine], rank[fine]
        duplicate = duplicate[~full[rows.channel[duplicate]]]
    delivered = channel[ready]
    sequence = columns["sequence"][delivered] + rank[ready]
    count = np.bincount(delivered, minlength=len(touched))
    columns["frontier"] = columns["frontier"] + count
    columns["sequence"] = columns["sequence"] + count
    table.exists = table.exists | (touched & ~unusual)
    return Settled(
        unusual,
        rows.row[which[ready]],
        delivered,
        sequence,
        which[~ready],
        rows.row[duplicate],
        disorder,
    )


def _overfull(
    row: Int64s, starts: Int64s, sizes: Int64s, ready: Bools, held_count: int, limit: int
) -> Bools:
    """Which of the channels (beginning at ``starts``) would exceed ``limit`` at some arrival.

    A message leaves the buffer when it and all below it are there: at the latest arrival among
    those. Counting entries and leavings in order of arrival gives the buffer's length at any time.
    """
    count = len(row)
    if int(sizes.max(initial=0)) <= limit:
        return np.zeros(len(starts), dtype=np.bool_)
    group = np.repeat(np.arange(len(starts)), sizes)
    arrived = np.where(row < held_count, NONE, row)
    # Running maximum within each channel: offsets by group keep the channels apart.
    stride = int(row.max()) + 2
    complete = np.maximum.accumulate(arrived + group * stride) - group * stride
    by_arrival = order_by(group, arrived)
    order = np.empty(count, dtype=np.int64)
    order[by_arrival] = np.arange(count)
    change = np.zeros(count, dtype=np.int64)
    np.add.at(change, order, 1)
    leave = np.searchsorted(
        (arrived + group * stride)[by_arrival], (complete + group * stride)[ready]
    )
    np.add.at(change, leave, -1)
    length = np.cumsum(change)
    before = np.concatenate([[0], length])[starts]
    longest: Int64s = np.maximum.reduceat(length, starts) - before
    return longest > limit
