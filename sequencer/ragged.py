"""Lists of different lengths as two arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ragged:
    """Lists of numbers, one behind the other: list n is ``values[bounds[n] : bounds[n + 1]]``."""

    bounds: Ints
    values: Ints

    @classmethod
    def of(cls, lists: Iterable[Iterable[int]]) -> Ragged:
        """From any lists."""
        taken = [list(values_of) for values_of in lists]
        lengths = np.array([len(values_of) for values_of in taken], dtype=np.int64)
        values = np.array([value for values_of in taken for value in values_of], dtype=np.int64)
        return cls(np.concatenate(([0], np.cumsum(lengths))).astype(np.int64), values)

    @property
    def lengths(self) -> Ints:
        """The length of each list."""
        return np.diff(self.bounds)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def take(self, which: Ints) -> Ragged:
        """Some of the lists, in the order of ``which``."""
        lengths = self.lengths[which]
        bounds = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        at = np.arange(bounds[-1]) + np.repeat(self.bounds[which] - bounds[:-1], lengths)
        return Ragged(bounds, self.values[at])

    def owners(self) -> Ints:
        """For each value the list that it is in."""
        return np.repeat(np.arange(len(self)), self.lengths)
