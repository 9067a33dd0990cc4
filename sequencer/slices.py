"""Cutting what is many times larger than a batch into pieces that memory has room for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def slices(counts: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Stretches (half-open) of records of which none has more than ``most`` copies in all.

    ``counts``: copies of each record; one that has more than ``most`` goes alone.
    """
    ends = np.cumsum(counts)
    first = before = 0
    while first < len(counts):
        stop = max(int(np.searchsorted(ends, before + most, side="right")), first + 1)
        yield first, stop
        first, before = stop, int(ends[stop - 1])


def stretches(sizes: NDArray[np.int64], least: int) -> Iterator[tuple[int, int]]:
    """Stretches (half-open) of records that have ``least`` in all, or more by the last one's size.

    So where one ends depends on nothing behind it; the last stretch may have less.
    """
    ends = np.cumsum(sizes)
    first = before = 0
    while first < len(sizes):
        stop = min(int(np.searchsorted(ends, before + least)) + 1, len(sizes))
        yield first, stop
        first, before = stop, int(ends[stop - 1])
