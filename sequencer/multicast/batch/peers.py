"""What each peer has got: a table of all peers of a shard."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    last took part. ``remembered``: the rows of names that were looked up (-1: none), between
    `remember` and `end`: to look up one name among all takes time for each of them.
    """

    keys: pa.Array
    sequence: Int64s
    incarnation: Int64s
    last_ms: Int64s
    remembered: dict[bytes, int] | None = field(default=None, init=False)

    @classmethod
    def empty(cls) -> Peers:
        """Nobody."""
        return cls(pa.array([], pa.binary()), *(np.zeros(0, np.int64) for _ in COLUMNS))

    def __len__(self) -> int:
        return len(self.keys)

    def rows(self, names: pa.Array) -> Int64s:
        """The row of each name, -1 where it has none."""
        known = self.remembered
        if known is None:
            return rows_of(names, self.keys)
        listed = names.to_pylist()
        others = pa.array([*{name for name in listed if name not in known}], pa.binary())
        if len(others):
            rows = rows_of(others, self.keys).tolist()
            known.update(zip(others.to_pylist(), rows, strict=True))
        return np.array([known[name] for name in listed], np.int64)

    def remember(self, names: pa.Array) -> None:
        """Look up names (distinct) that will be asked for in many portions."""
        rows = rows_of(names, self.keys).tolist()
        self.remembered = dict(zip(names.to_pylist(), rows, strict=True))

    def end(self) -> None:
        """Forget what was looked up."""
        self.remembered = None

    def rows_or_new(self, names: pa.Array, now_ms: int) -> Int64s:
        """Return the row of each of some distinct names; a name without a row gets one."""
        rows = self.rows(names)
        new = np.flatnonzero(rows < 0)
        if len(new):
            rows[new] = len(self) + np.arange(len(new))
            added = names.take(pa.array(new))
            self.keys = pa.concat_arrays([self.keys, added])
            if self.remembered is not None:
                self.remembered.update(zip(added.to_pylist(), rows[new].tolist(), strict=True))
            begun = np.full(len(new), now_ms, np.int64)
            self.sequence = np.concatenate((self.sequence, np.zeros(len(new), np.int64)))
            self.incarnation = np.concatenate((self.incarnation, begun))
            self.last_ms = np.concatenate((self.last_ms, begun))
        return rows

    def number(self, rows: Int64s, now_ms: int) -> Int64s:
        """The `sequence` of each of some deliveries, given by the rows of their peers in order."""
        rank, distinct, counts = ranks(rows)
        numbers = self.sequence[rows] + rank
        self.sequence[distinct] += counts
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
