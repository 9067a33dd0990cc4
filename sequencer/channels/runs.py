"""Runs of missing labels, and the times when they are requested.

A run is the missing labels between two held ones, or below the first of them:

    next label 5, held 7 8 11      runs [5, 7) [9, 11)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from sequencer.channels.rules import NEVER_MS, Rules
from sequencer.sorting import order_by, starts_of

Int64s = NDArray[np.int64]
Bools = NDArray[np.bool_]

TRIES_MAX = 8
"""The most requests for a run, after 1, 2, 4, … times ``ask_ms``."""
RUNS_MAX = 64
"""The most runs of a channel that are requested, besides those without tries left."""
NOT_COMING = -1
"""In place of tries: these labels were declared lost."""


def _empty() -> Int64s:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs that were requested, or will not come; half-open positions, by (channel, first).

    ``tries``: the number of requests, or NOT_COMING; ``asked_ms``: batch time of the last one.
    ``incarnation`` and ``epoch``: the channel's then; once it has others, the run is obsolete.
    """

    channel: Int64s
    first: Int64s
    stop: Int64s
    incarnation: Int64s
    epoch: Int64s
    tries: Int64s
    asked_ms: Int64s

    @classmethod
    def empty(cls) -> Runs:
        """Return an object without runs."""
        return cls(*(_empty() for _ in fields(cls)))

    def __len__(self) -> int:
        return len(self.channel)

    def take(self, rows: Int64s | Bools) -> Runs:
        """The runs at ``rows`` (indices or a mask)."""
        return Runs(*(getattr(self, each.name)[rows] for each in fields(self)))

    def merged(self, other: Runs) -> Runs:
        """Return both together."""
        pairs = ((getattr(self, each.name), getattr(other, each.name)) for each in fields(self))
        both = Runs(*map(np.concatenate, pairs))
        return both.take(order_by(both.channel, both.first)) if len(other) else self


@dataclass(frozen=True, slots=True)
class Missing:
    """Runs of missing labels, by (channel, first); ``since_ms``: first arrival above each."""

    channel: Int64s
    first: Int64s
    stop: Int64s
    since_ms: Int64s

    def __len__(self) -> int:
        return len(self.channel)

    def take(self, rows: Int64s | Bools) -> Missing:
        """The runs at ``rows`` (indices or a mask)."""
        return Missing(*(getattr(self, each.name)[rows] for each in fields(self)))

    def without(self, runs: Runs) -> Missing:
        """Return the missing labels without the runs that will not come."""
        runs = runs.take(runs.tries == NOT_COMING)
        if not len(runs):
            return self
        holes: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        columns = (runs.channel.tolist(), runs.first.tolist(), runs.stop.tolist())
        for channel, first, stop in zip(*columns, strict=True):
            holes[channel].append((first, stop))
        concerned = np.isin(self.channel, runs.channel)
        rest = (self.take(~concerned), _cut(self.take(concerned), holes))
        names = [each.name for each in fields(self)]
        both = Missing(*(np.concatenate([getattr(part, name) for part in rest]) for name in names))
        return both.take(order_by(both.channel, both.first))


def _cut(missing: Missing, holes: Mapping[int, Sequence[tuple[int, int]]]) -> Missing:
    """Return the runs without some ranges; both ascend in each channel."""
    found = []
    passed = dict.fromkeys(holes, 0)  # by channel: the ranges that end before the run
    columns = (getattr(missing, each.name).tolist() for each in fields(missing))
    for channel, first, stop, since_ms in zip(*columns, strict=True):
        ranges, at = holes[channel], first
        number = passed[channel]
        while number < len(ranges) and ranges[number][0] < stop:
            begin, end = ranges[number]
            if at < begin:
                found.append((channel, at, begin, since_ms))
            at = max(at, min(end, stop))
            if end > stop:
                break
            number += 1
        passed[channel] = number
        if at < stop:
            found.append((channel, at, stop, since_ms))
    return Missing(*np.array(found, dtype=np.int64).reshape(-1, 4).T)


def missing_of(channel: Int64s, position: Int64s, since_ms: Int64s, frontier: Int64s) -> Missing:
    """Return the runs below held messages (parallel arrays); ``frontier`` is by row of the table.

    A run's wait begins at the least ``since_ms`` of the messages above it.
    """
    if not len(channel):
        return Missing(channel, position, position, since_ms)
    starts = starts_of(channel)
    below = np.concatenate([[0], position[:-1] + 1])
    below[starts] = frontier[channel[starts]]
    at = np.flatnonzero(position > below)
    least = int(since_ms.min())
    span = int(since_ms.max()) - least + 1  # channels behind, so offset, are above all others
    number = np.cumsum(np.isin(np.arange(len(channel)), starts)) - 1
    shifted = (since_ms - least) + number * span
    since = np.minimum.accumulate(shifted[::-1])[::-1] - number * span + least
    return Missing(channel[at], below[at], position[at], since[at])


def found_in(first: Int64s, channel: Int64s, runs: Runs) -> Int64s:
    """Return the row of the run that each position of a channel lies in; -1 for none.

    Runs of one channel do not overlap.
    """
    count = len(runs)
    both = order_by(
        np.concatenate([runs.channel, channel]),
        np.concatenate([runs.first, first]),
    )
    last = np.maximum.accumulate(np.where(both < count, np.arange(len(both)), -1))
    rows = np.where(last >= 0, both[last], -1)[both >= count]
    found = np.full(len(first), -1)
    found[both[both >= count] - count] = rows
    same = np.append(runs.channel, -1)[found] == channel
    return np.where(same & (first < np.append(runs.stop, 0)[found]), found, -1)


def due_at(missing: Missing, tries: Int64s, asked_ms: Int64s, rules: Rules, rule: Int64s) -> Int64s:
    """Return when each run is requested next; NEVER_MS: never. ``rule`` is by row of the table."""
    every = rules.limit("ask_every_ms", rule[missing.channel])
    every = np.broadcast_to(every, len(missing))
    since_ms, asked_ms = rules.counted(missing.since_ms), rules.counted(asked_ms)
    later = asked_ms + (np.where(every == NEVER_MS, 0, every) << np.maximum(tries - 1, 0))
    due = np.where(tries == 0, since_ms + np.where(every == NEVER_MS, 0, every), later)
    starts = starts_of(missing.channel)
    open_ = tries < TRIES_MAX
    before: Int64s = np.cumsum(open_) - open_
    rank: Int64s = before - np.repeat(before[starts], np.diff(starts, append=len(missing)))
    never = (every == NEVER_MS) | ~open_ | (rank >= RUNS_MAX)
    return np.where(never, NEVER_MS, due)


def next_ask_ms(since_ms: int, tries: int, asked_ms: int, ask_ms: int | None) -> int | None:
    """Return when one run is requested next, as :func:`due_at`; None: never."""
    if ask_ms is None or tries >= TRIES_MAX:
        return None
    return since_ms + ask_ms if tries == 0 else asked_ms + (ask_ms << (tries - 1))
