"""Messages on their way, as parallel arrays; what they carry stays in rows that others keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sequencer.ragged import Ints, Ragged
from sequencer.sorting import order_by

DELIVER = -1
"""The position of a message that has left its last atom."""


@dataclass(frozen=True, slots=True)
class Hops:
    """Messages in some order. ``row`` says where the payload is, -1 for a last message.

    ``line`` is a line's number, ``number`` the group-local one, ``position`` the run of the path
    that comes next, or DELIVER. Message n got the numbers ``stamp`` from the atoms (their numbers)
    ``atom``, list n of each, in order of passage.
    """

    row: Ints
    line: Ints
    number: Ints
    position: Ints
    atom: Ragged
    stamp: Ragged

    @classmethod
    def fresh(cls, row: Ints, line: Ints, number: Ints) -> Hops:
        """Messages that no atom has numbered yet."""
        none = Ragged(np.zeros(len(row) + 1, np.int64), np.empty(0, np.int64))
        return cls(row, line, number, np.zeros(len(row), np.int64), none, none)

    @classmethod
    def empty(cls) -> Hops:
        """No message."""
        none = np.empty(0, np.int64)
        return cls.fresh(none, none, none)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def last(self) -> NDArray[np.bool_]:
        """Which of them end a line."""
        return self.row < 0

    def take(self, which: Ints) -> Hops:
        """Some of them, in the order of ``which``."""
        return Hops(
            self.row[which],
            self.line[which],
            self.number[which],
            self.position[which],
            self.atom.take(which),
            self.stamp.take(which),
        )

    def with_rows(self, row: Ints) -> Hops:
        """The same messages; what they carry is in other rows."""
        return replace(self, row=row)

    def where(self, mask: NDArray[np.bool_]) -> Hops:
        """Those that a mask says."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    @staticmethod
    def concat(parts: Sequence[Hops]) -> Hops:
        """One behind the other."""
        parts = [part for part in parts if len(part)]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return Hops.empty()
        return Hops(
            np.concatenate([part.row for part in parts]),
            np.concatenate([part.line for part in parts]),
            np.concatenate([part.number for part in parts]),
            np.concatenate([part.position for part in parts]),
            _joined([part.atom for part in parts]),
            _joined([part.stamp for part in parts]),
        )


def appended(one: Ragged, other: Ragged) -> Ragged:
    """List n of ``one``, then list n of ``other``."""
    if not len(other.values):
        return one
    if not len(one.values):
        return other
    owner = np.concatenate((one.owners(), other.owners()))
    order = order_by(owner)
    values = np.concatenate((one.values, other.values))[order]
    return Ragged(one.bounds + other.bounds, values)


def _joined(parts: Sequence[Ragged]) -> Ragged:
    lengths = np.concatenate([part.lengths for part in parts])
    bounds = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return Ragged(bounds, np.concatenate([part.values for part in parts]))
