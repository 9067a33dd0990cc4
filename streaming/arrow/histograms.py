"""Histograms as lists of integers: the number of values in each bucket, then their sum.

They are added element by element, over a batch's shards and over batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

DISPLACED, LATE_MS, WAITED_MS, LATENCY_MS = "displaced", "late_ms", "waited_ms", "latency_ms"

_LABELS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000)
_SECONDS = (0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600, 21_600, 86_400)
_QUICK = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 300, 3_600)

BOUNDS: dict[str, tuple[int, ...]] = {
    DISPLACED: _LABELS,
    LATE_MS: (0, *(int(1000 * each) for each in _SECONDS)),
    WAITED_MS: (0, *(int(1000 * each) for each in _SECONDS)),
    LATENCY_MS: tuple(int(1000 * each) for each in _QUICK),
}
"""The highest value of each bucket but the last, which is unbounded. Checkpoints keep counts by
these bounds: to change them, give the histogram another name."""


def counted(name: str, values: NDArray[np.int64], zeros: int = 0) -> list[int]:
    """Return the histogram of the values, and of this many further zeros."""
    bounds = np.array(BOUNDS[name], dtype=np.int64)
    counts = np.bincount(np.searchsorted(bounds, values), minlength=len(bounds) + 1)
    counts[0] += zeros
    return [*counts.tolist(), int(values.sum())]


def together(parts: Iterable[Sequence[int]]) -> list[int]:
    """Add up histograms of one name; empty if there are none."""
    return [sum(column) for column in zip(*filter(None, parts), strict=True)]


def quantile(name: str, counts: Sequence[int], share: float) -> int | None:
    """Return the bound below which this share of values lies; None: above all; 0: no values."""
    *buckets, _ = counts or [0, 0]
    wanted = share * sum(buckets)
    if not wanted:
        return 0
    reached = np.cumsum(buckets) >= wanted
    return dict(enumerate(BOUNDS[name])).get(int(np.argmax(reached)))
