"""In which partition each key lies: always the same one, that of its hash.

The hash of a key, taken modulo the number of partitions, gives its partition. Where a topic was
given partitions, the service goes on with the number that it had: new partitions stay empty.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streaming.arrow.partitioner import partitions_of
from streaming.verify.faults import Verdict
from streaming.verify.records import Record

Home = tuple[int, str]
"""A partition, and the first record that was seen there."""


class Homes:
    """Takes the records of outputs one by one; ``counts``: the partitions of each topic."""

    def __init__(self, verdict: Verdict, counts: Mapping[str, int]) -> None:
        self.verdict = verdict
        self._counts = counts
        self._homes: dict[str, dict[bytes, Home]] = {}

    def take(self, record: Record, key: bytes) -> None:
        """Note where a key's record lies; it must be where the others of this key are."""
        homes = self._homes.setdefault(record.topic, {})
        home = homes.get(key)
        if home is None:
            homes[key] = record.partition, str(record)
        elif home[0] != record.partition:
            self.verdict.find("wrong-partition", f"{record}, but {home[1]} has the same key")

    def finish(self) -> None:
        """Find keys that are not in the partition of their hash."""
        for topic, homes in self._homes.items():
            lying = np.array([partition for partition, _ in homes.values()], np.int32)
            belongs = _belongs([*homes], lying, max(1, self._counts.get(topic, 1)))
            for row in np.flatnonzero(lying != belongs).tolist():
                _, witness = [*homes.values()][row]
                text = f"{witness} belongs into partition {belongs[row]}"
                self.verdict.find("wrong-partition", text)


def _belongs(keys: list[bytes], lying: NDArray[np.int32], count: int) -> NDArray[np.int32]:
    """Return the partitions of the keys by the greatest number that fits them all, if any does."""
    column = pa.array(keys, pa.binary())
    usual = partitions_of(column, count)
    for fewer in range(count, int(lying.max()), -1):
        found = partitions_of(column, fewer)
        if np.array_equal(found, lying):
            return found
    return usual
