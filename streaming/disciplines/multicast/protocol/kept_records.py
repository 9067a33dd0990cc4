"""The records that a shard of discipline `multicast` keeps, each under its message's number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streaming.arrow.payload import carried
from streaming.arrow.schemas import RECORD


class KeptRecords:
    """Records as rows of ``table`` under ``ids``; ``index``: the row of each number."""

    def __init__(self) -> None:
        self.table = RECORD.empty_table()
        self.ids = np.zeros(0, np.int64)
        self.index: dict[int, int] = {}

    def put(self, table: pa.Table, ids: Sequence[int]) -> None:
        """Replace the records with these."""
        self.table, self.ids = table, np.array(ids, np.int64)
        self._count()

    def add(self, tables: Sequence[pa.Table], payload: pa.Table, ids: Iterable[int]) -> None:
        """Append records: the shard's own, then others'."""
        foreign = carried(payload, RECORD.names)
        self.table = pa.concat_tables([self.table, *tables, foreign]).combine_chunks()
        self.ids = np.concatenate((self.ids, np.array(list(ids), np.int64)))
        self._count()

    def take(self, numbers: Iterable[int]) -> pa.Table:
        """Return the records of these numbers."""
        return self.table.take(pa.array([self.index[number] for number in numbers], pa.int64()))

    def one(self, number: Any) -> dict[str, Any]:
        """Return a record as a dictionary of its columns."""
        row: dict[str, Any] = self.table.slice(self.index[number], 1).to_pylist()[0]
        return row

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Keep only the records of a mask."""
        if not kept.all():
            self.table = self.table.filter(pa.array(kept)).combine_chunks()
            self.ids = self.ids[kept]
            self._count()

    def _count(self) -> None:
        self.index = {number: at for at, number in enumerate(self.ids.tolist())}
