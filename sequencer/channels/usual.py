"""Processing of usual channels: all their messages together, vectorised.

A message is deliverable exactly where its distance from the frontier equals its rank among the
channel's messages.

Five rows: channel a waits for label 4 (its frontier) and holds 6, channel b waits for 0. Rows of
the batch count on behind the held ones.

    row                0 (held)    1      2      3      4
    channel, label       a 6      b 0    a 5    a 4    a 6

    sorted by channel and label, equal ones in order of arrival:

    row                  3      2      0      4    |    1
    channel              a      a      a      a    |    b
    ahead (label - frontier)
                         0      1      2      2    |    0
    first of its label   yes    yes    yes    no   |   yes
    rank in its channel  0      1      2           |    0
    ready (ahead = rank) yes    yes    yes         |   yes

Rows 3, 2, 0 leave as the next three of a, row 1 as the next of b; row 4 is a duplicate. Without
row 3 no row of a would be ready (1, 2 against 0, 1), and rows 2 and 0 would be held. A frontier
moves by what its channel delivered: a to 7, b to 1.

A message is delivered when the last of those at and below it arrives, a record without a label when
it arrives; all deliveries are numbered by that:

    arrives   row 0: label 1   row 1: none   row 2: label 0   row 3: none   row 4: label 2
    at row          2              1              2               3             4
    sequence        2              0              1               3             4
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sequencer.channels.delays import halved, with_samples
from sequencer.channels.disorder import Disorder, measure
from sequencer.channels.rows import Passing, Rows, Table
from sequencer.channels.rules import Rules
from sequencer.channels.state import NONE, Bools, Int64s
from sequencer.channels.unusual import FAULTLESS, PlainChannels
from sequencer.sorting import order_by, starts_of


@dataclass(slots=True)
class Settled:
    """The vectorised part's results; ``unusual`` also has the channels whose buffer filled up.

    ``held``: rows numbered as given, sorted by (channel, position). ``passed``: the number of
    delivered rows without a label.
    """

    unusual: Bools
    delivered_row: Int64s
    delivered_channel: Int64s
    sequence: Int64s
    held: Int64s
    passed: int
    duplicate_row: Int64s
    disorder: Disorder


def settle(
    table: Table,
    rows: Rows,
    passing: Passing,
    held_count: int,
    touched: Bools,
    unusual: Bools,
    rules: Rules,
    now_ms: int,
) -> Settled:
    """Deliver, hold or drop as duplicates the messages of usual channels with arrivals."""
    columns = table.columns
    which = np.flatnonzero((touched & ~unusual)[rows.channel])
    channel = rows.channel[which]
    ahead = np.maximum(rows.position[which] - table.base[channel], -1)
    order = order_by(channel, ahead)
    which, channel, ahead = which[order], channel[order], ahead[order]
    keep = ahead >= 0
    keep[1:] &= (channel[1:] != channel[:-1]) | (ahead[1:] != ahead[:-1])
    duplicate = which[~keep]
    if len(duplicate):
        which, channel, ahead = which[keep], channel[keep], ahead[keep]
    waits_ms = now_ms - rules.counted(rows.since_ms[which])
    disorder = measure(channel, ahead, rows.row[which], waits_ms, held_count)
    starts = starts_of(channel)
    sizes = np.diff(starts, append=len(which))
    rank = np.arange(len(which)) - np.repeat(starts, sizes)
    ready = ahead == rank
    settles = columns["start"] == NONE if rules.settle_ms is not None else None
    if settles is not None:
        ready &= ~settles[channel]

    held_max = table.limit(rules, "held_max", channel[starts])
    over = _overfull(rows.row[which], starts, sizes, ready, held_count, held_max)
    if over.any():
        full = np.zeros(len(touched), dtype=np.bool_)
        full[channel[starts[over]]] = True
        unusual = unusual | full
        fine = ~full[channel]
        which, channel, ready, rank = which[fine], channel[fine], ready[fine], rank[fine]
        duplicate = duplicate[~full[rows.channel[duplicate]]]
    delivered_row, delivered, rank = rows.row[which[ready]], channel[ready], rank[ready]
    count = np.bincount(delivered, minlength=len(touched))
    columns["frontier"] = columns["frontier"] + count
    if settles is not None:
        moved = settles & touched & ~unusual
        columns["frontier"][moved] = table.base[moved]
    passing = passing.take(~unusual[passing.channel])
    if len(passing.row):
        delivered_row, delivered, rank = _among(passing, delivered_row, delivered, held_count)
        count = np.bincount(delivered, minlength=len(touched))
    sequence = columns["sequence"][delivered] + rank
    columns["sequence"] = columns["sequence"] + count
    if columns["trailing"].any():
        columns["trailing"][count > 0] = 0
    table.exists = table.exists | (touched & ~unusual)
    return Settled(
        unusual,
        delivered_row,
        delivered,
        sequence,
        which[~ready],
        len(passing.row),
        rows.row[duplicate],
        disorder,
    )


def _among(
    passing: Passing, row: Int64s, channel: Int64s, held_count: int
) -> tuple[Int64s, Int64s, Int64s]:
    """Return rows, channels and ranks of all deliveries, as each channel makes them.

    ``row`` and ``channel`` are those with a label, in label order channel by channel.
    """
    moment = np.concatenate([moments(row, channel, held_count), passing.row])
    row = np.concatenate([row, passing.row])
    channel = np.concatenate([channel, passing.channel])
    order = order_by(channel, moment)
    row, channel = row[order], channel[order]
    starts = starts_of(channel)
    sizes = np.diff(starts, append=len(row))
    return row, channel, np.arange(len(row)) - np.repeat(starts, sizes)


def moments(row: Int64s, group: Int64s, held_count: int) -> Int64s:
    """Return the row whose arrival completes each row's group up to it; -1: before the batch.

    ``group`` ascends.
    """
    arrived = np.where(row < held_count, NONE, row)
    stride = int(row.max(initial=0)) + 2  # offsets by group keep the groups apart
    return np.maximum.accumulate(arrived + group * stride) - group * stride


def _overfull(
    row: Int64s, starts: Int64s, sizes: Int64s, ready: Bools, held_count: int, limit: Int64s
) -> Bools:
    """Return which channels (beginning at ``starts``) would exceed their limit at some arrival.

    A message leaves the buffer when it and all below it are there: at the latest arrival among
    those. Counting entries and leavings in order of arrival gives the buffer's length at any time.
    """
    count = len(row)
    if not (sizes > limit).any():
        return np.zeros(len(starts), dtype=np.bool_)
    group = np.repeat(np.arange(len(starts)), sizes)
    arrived = np.where(row < held_count, NONE, row)
    complete = moments(row, group, held_count)
    stride = int(row.max()) + 2
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


def with_delays(
    counts: Int64s,
    table: Table,
    settled: Settled,
    codes: Int64s,
    reasons: NDArray[np.uint8],
    plain: PlainChannels,
) -> Int64s:
    """Return the counts of delays with this batch's, for the rules that measure.

    ``codes`` and ``reasons``: each arrival's; see `unusual.FAULTLESS`.
    """
    rules = plain.rules
    if not rules.measures:
        return counts
    channel = codes[reasons == FAULTLESS]
    channel = channel[~settled.unusual[channel]]
    rule = table.columns["rule"]
    measured = np.array([each.gap.by is not None for each in rules.each])
    late = ~settled.unusual[settled.disorder.channel]
    late_rule = rule[settled.disorder.channel[late]]
    counts = with_samples(counts, late_rule, settled.disorder.late_ms[late])
    counts[:, 0] += np.bincount(rule[channel], minlength=len(counts))
    counts[:, 0] -= np.bincount(late_rule, minlength=len(counts))
    counts[~measured] = 0
    others = np.array(plain.results.delays, dtype=np.int64).reshape(-1, 2)
    return halved(with_samples(counts, others[:, 0], others[:, 1]))
