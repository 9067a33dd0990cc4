"""Fast stable sorting of rows by integers, and ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

NARROW_BITS, KEY_BITS = 16, 63


def order_by(*columns: NDArray[np.integer]) -> Ints:
    """The rows in order of the first column, of equal ones by the next; equal rows as they stand.

    As `np.lexsort` of the columns in reverse. One column of up to 16 bits numpy orders in linear
    time. Of others the numbers above their least, and the row, are put into one number each where
    63 bits do: to sort these takes a fifth of what it takes to find the order of the columns.
    """
    rows = len(columns[0])
    if not rows:
        return np.zeros(0, np.int64)
    leasts = [int(column.min()) for column in columns]
    widths = [
        (int(column.max()) - least).bit_length()
        for column, least in zip(columns, leasts, strict=True)
    ]
    if len(columns) == 1 and widths[0] <= NARROW_BITS:
        narrow = np.min_scalar_type(2 ** widths[0] - 1)
        return np.argsort((columns[0] - leasts[0]).astype(narrow), kind="stable")
    row_bits = rows.bit_length()
    if sum(widths) + row_bits > KEY_BITS:
        return np.lexsort(columns[::-1])
    key = np.zeros(rows, np.int64)
    for column, least, width in zip(columns, leasts, widths, strict=True):
        key <<= width
        key |= column.astype(np.int64, copy=False) - least
    key <<= row_bits
    key |= np.arange(rows)
    key.sort()
    key &= (1 << row_bits) - 1
    return key


def starts_of(ordered: Ints) -> Ints:
    """Where each number begins in a sorted array."""
    if not len(ordered):
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))


def ranks(keys: Ints) -> tuple[Ints, Ints, Ints]:
    """Return how many equal keys come before each; and the distinct keys with their counts."""
    order = order_by(keys)
    ordered = keys[order]
    starts = starts_of(ordered)
    counts = np.diff(starts, append=len(keys))
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.arange(len(keys)) - np.repeat(starts, counts)
    return rank, ordered[starts], counts
