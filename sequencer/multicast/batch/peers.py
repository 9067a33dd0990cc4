"""What each peer has got: a table of all peers of a shard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sequencer.lookup import rows_of
from sequencer.multicast.batch.lists import Bools, Int64s
from sequencer.sorting import ranks

COLUMNS = ("sequence", "incarnation", "last_ms")


@dataclass(slots=True)
class Peers:
    """Peers by name (binary, distinct), in the order in which they came; parallel arrays.

    ``sequence``: of the next delivery. ``incarnation``: since when (ms). ``last_ms``: when the peer
    last took part.
    """

    keys: pa.Array
    sequence: Int64s
    incarnation: Int64s
    last_ms: Int64s

    @classmethod
    def empty(cls) -> Peers:
        """Nobody."""
        return cls(pa.array([], pa.binary()), *(np.zeros(0, np.int64) for _ in COLUMNS))

    def __len__(self) -> int:
        return len(self.keys)

    def rows(self, names: pa.Array) -> Int64s:
        """The row of each name, -1 where it has none."""
        return rows_of(names, self.keys)

    def rows_or_new(self, names: pa.Array, now_ms: int) -> Int64s:
        """Return the row of each of some distinct names; a name without a row gets one."""
        rows = self.rows(names)
        new = np.flatnonzero(rows < 0)
        if len(new):
            rows[new] = len(self) + np.arange(len(new))
            self.keys = pa.concat_arrays([self.keys, names.take(pa.array(new))])
            begun = np.full(len(new), now_ms, np.int64)
            self.sequence = np.concatenate((self.sequence, np.zeros(len(new), np.int64)))
            self.incarnation = np.concatenate((self.incarnation, begun))
            self.last_ms = np.concatenate((self.last_ms, begun))
        return rows

    def number(self, rows: Int64s, now_ms: int) -> Int64s:
        """The `sequence` of each of some deliveries, given by the rows of their peers in order."""
        numbers = self.sequence[rows] + ranks(rows)[0]
        self.sequence += np.bincount(rows, minlength=len(self))
        self.last_ms[rows] = now_ms
        return numbers

    def renew(self, since_ms: int) -> None:
        """Begin the numbers of peers that began before ``since_ms`` anew, then."""
        older = self.incarnation < since_ms
        self.sequence[older] = 0
        self.incarnation[older] = since_ms

    def keep(self, kept: Bools) -> None:
        """Forget all others; the rows move up."""
        self.keys = self.keys.filter(pa.array(kept))
        for name in COLUMNS:
            setattr(self, name, getattr(self, name)[kept])
