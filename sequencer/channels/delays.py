"""How late messages came, and the gap time that follows from it.

A message's *delay* is how long the channel had waited for it when it came: since the first message
above it arrived, 0 where none did. One that comes after its label was given up is a sample, too.
Counts by BOUNDS are kept for each of a pipeline's rules; duplicates and other rejects do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

_TENTHS = (10, 13, 16, 20, 25, 32, 40, 50, 63, 79)
BOUNDS = np.array([0, *(n * 10**k for k in range(6) for n in _TENTHS), 10_000_000], dtype=np.int64)
"""The longest delay (ms) of each bucket but the last one, which has what is above: up to three
hours, each a quarter longer than the one before."""
BUCKETS = len(BOUNDS) + 1
SAMPLES_MIN = 1_000
"""Fewer samples say nothing: the longest time counts."""
SAMPLES_MAX = 1_000_000
"""Where there are more, all counts are halved, so that what was long ago counts less and less."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """A gap time that so large a share of the messages does not exceed, within bounds (ms)."""

    share: float
    least_ms: int
    most_ms: int

    def __post_init__(self) -> None:
        if not (0 < self.share < 1 and 0 <= self.least_ms <= self.most_ms):
            raise ValueError("the share lies between 0 and 1, least_ms is not above most_ms")

    def of(self, counts: Int64s) -> int:
        """The gap time (ms) by the counts of delays so far."""
        samples = int(counts.sum())
        if samples < SAMPLES_MIN:
            return self.most_ms
        reached = int(np.argmax(np.cumsum(counts) >= self.share * samples))
        bound = int(BOUNDS[reached]) if reached < len(BOUNDS) else self.most_ms
        return min(max(bound, self.least_ms), self.most_ms)


def no_delays(rules: int) -> Int64s:
    """No sample of any rule: a row of buckets for each."""
    return np.zeros((rules, BUCKETS), dtype=np.int64)


def with_samples(counts: Int64s, rule: Int64s, delay_ms: Int64s) -> Int64s:
    """The counts with more samples; ``rule`` and ``delay_ms`` are parallel."""
    bucket = np.searchsorted(BOUNDS, delay_ms)
    more = np.bincount(rule * BUCKETS + bucket, minlength=counts.size)
    return counts + more.reshape(counts.shape)


def halved(counts: Int64s) -> Int64s:
    """The counts, those of rules with very many samples halved."""
    return np.where(counts.sum(axis=1, keepdims=True) > SAMPLES_MAX, counts // 2, counts)


def moved(counts: Int64s, before: Sequence[str], after: Sequence[str]) -> Int64s:
    """The counts of other rules: a rule whose glob was there before keeps its counts."""
    old = {glob: number for number, glob in enumerate(before, 1)}
    numbers = [0, *(old.get(glob, -1) for glob in after)]
    if not len(counts):
        return counts
    return np.append(counts, no_delays(1), axis=0)[numbers]
