"""Delays of messages, and the gap time that follows from them.

A message's *delay* is how long the channel had waited for it when it arrived: since the first
message above it, 0 if there was none. One that arrives after its label was given up counts, too.
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
"""The longest delay (ms) of each bucket but the last, which is unbounded: up to three hours, each a
quarter longer than the one before."""
BUCKETS = len(BOUNDS) + 1
SAMPLES_MIN = 1_000
"""With fewer samples the longest gap time is used."""
SAMPLES_MAX = 1_000_000
"""With more samples all counts are halved, so that old samples count less and less."""


@dataclass(frozen=True, slots=True)
class Quantile:
    """A gap time that this share of the messages' delays does not exceed, within bounds (ms)."""

    share: float
    least_ms: int
    most_ms: int

    def __post_init__(self) -> None:
        if not (0 < self.share < 1 and 0 <= self.least_ms <= self.most_ms):
            raise ValueError("the share lies between 0 and 1, least_ms is not above most_ms")

    def of(self, counts: Int64s) -> int:
        """Return the gap time (ms) for these counts of delays."""
        samples = int(counts.sum())
        if samples < SAMPLES_MIN:
            return self.most_ms
        reached = int(np.argmax(np.cumsum(counts) >= self.share * samples))
        bound = int(BOUNDS[reached]) if reached < len(BOUNDS) else self.most_ms
        return min(max(bound, self.least_ms), self.most_ms)


def no_delays(rules: int) -> Int64s:
    """Return empty counts: a row of buckets for each rule."""
    return np.zeros((rules, BUCKETS), dtype=np.int64)


def with_samples(counts: Int64s, rule: Int64s, delay_ms: Int64s) -> Int64s:
    """Return the counts with more samples; ``rule`` and ``delay_ms`` are parallel."""
    bucket = np.searchsorted(BOUNDS, delay_ms)
    more = np.bincount(rule * BUCKETS + bucket, minlength=counts.size)
    return counts + more.reshape(counts.shape)


def halved(counts: Int64s) -> Int64s:
    """Return the counts, halved for rules with too many samples."""
    return np.where(counts.sum(axis=1, keepdims=True) > SAMPLES_MAX, counts // 2, counts)


def moved(counts: Int64s, before: Sequence[str], after: Sequence[str]) -> Int64s:
    """Return the counts for changed rules: a rule whose glob existed before keeps its counts."""
    old = {glob: number for number, glob in enumerate(before, 1)}
    numbers = [0, *(old.get(glob, -1) for glob in after)]
    if not len(counts):
        return counts
    return np.append(counts, no_delays(1), axis=0)[numbers]
