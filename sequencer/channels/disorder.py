"""How far out of order messages arrived: what another gap time or buffer would have given up.

A message's *displacement* is the distance, in labels, to the highest label that arrived before it
in its channel, 0 if none is above it (similar to the reordering extent of RFC 4737). It is *late*
by the time that the first message above it had waited when it arrived: a shorter gap time would
have given it up. A buffer or a window as long as the displacement never gives it up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sequencer.channels.rules import WINDOW_MAX
from sequencer.channels.state import Bools, Int64s
from sequencer.sorting import order_by

MIXED_MIN = 0.1
"""With more disorder nearly every channel has some, and leaving the others out gains nothing."""


def _none() -> Int64s:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Disorder:
    """The arrivals of one step: the number in order, and parallel arrays of the others.

    ``displaced`` in labels (above 0), ``late_ms`` in batch time without pauses (0: within one
    batch), ``channel``: a row. Duplicates, and messages that arrived after they were given up, are
    not counted.
    """

    in_order: int = 0
    displaced: Int64s = field(default_factory=_none)
    late_ms: Int64s = field(default_factory=_none)
    channel: Int64s = field(default_factory=_none)

    def __add__(self, other: Disorder) -> Disorder:
        return Disorder(
            self.in_order + other.in_order,
            np.concatenate([self.displaced, other.displaced]),
            np.concatenate([self.late_ms, other.late_ms]),
            np.concatenate([self.channel, other.channel]),
        )


def measure(
    channel: Int64s, ahead: Int64s, row: Int64s, waits_ms: Int64s, held_count: int
) -> Disorder:
    """Measure messages sorted by (channel, ahead), each label once; parallel arrays.

    ``ahead`` counts labels from any one of the channel, ``row`` is in order of arrival, the
    first ``held_count`` were held before; ``waits_ms``: how long a message has waited.
    """
    back = (row[1:] < row[:-1]) & (channel[1:] == channel[:-1])
    arrived = int(np.count_nonzero(row >= held_count))
    if not back.any():
        return Disorder(arrived)
    if np.count_nonzero(back) < len(row) * MIXED_MIN:
        mixed: Bools = np.zeros(int(channel[-1]) + 1, dtype=np.bool_)
        mixed[channel[1:][back]] = True
        which = mixed[channel]
        channel, ahead, row, waits_ms = channel[which], ahead[which], row[which], waits_ms[which]
    group = np.cumsum(np.diff(channel, prepend=channel[0]) != 0)
    ahead = np.minimum(ahead, WINDOW_MAX)  # a channel that settles may hold labels farther apart

    stride = int(waits_ms.max()) + 1
    behind = waits_ms[::-1] + (group[-1] - group[::-1]) * stride  # groups kept apart
    longest = (np.maximum.accumulate(behind)[::-1] - (group[-1] - group) * stride).astype(np.int64)

    stride = int(ahead.max()) + 1
    by_arrival = order_by(group, row)
    positions = (ahead + group * stride)[by_arrival]
    displaced = np.empty(len(row), dtype=np.int64)
    displaced[by_arrival] = np.maximum.accumulate(positions) - positions
    of = (displaced > 0) & (row >= held_count)
    displaced = displaced[of]
    return Disorder(arrived - len(displaced), displaced, longest[of], channel[of])


def measure_unsorted(
    channel: Int64s, ahead: Int64s, row: Int64s, waits_ms: Int64s, held_count: int
) -> Disorder:
    """Measure messages in any order, some of which may be duplicates."""
    order = order_by(channel, ahead, row)
    channel, ahead, row, waits_ms = (column[order] for column in (channel, ahead, row, waits_ms))
    keep = np.ones(len(row), dtype=np.bool_)
    keep[1:] = (channel[1:] != channel[:-1]) | (ahead[1:] != ahead[:-1])
    return measure(channel[keep], ahead[keep], row[keep], waits_ms[keep], held_count)
