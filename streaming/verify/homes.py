"""In which partition each key lies: always the same one, that of its hash.

The hash of a key, taken modulo the number of partitions, gives its partition. Where a topic was
given partitions, the service goes on with the number that it had: new partitions stay empty.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streaming.arrow.partitioner import murmur2
from streaming.verify.faults import Verdict
from streaming.verify.records import Record

Home = tuple[int, str]
"""A partition, and the first record that was seen there."""
Fits = dict[str, list[tuple[NDArray[np.int32], NDArray[np.int32]]]]
"""By topic, the hashes and partitions of keys that were judged before, in other parts."""


class Homes:
    """Takes the records of outputs one by one; ``counts``: the partitions of each topic.

    ``fits`` gets what was found, where one number has to fit the keys of other parts, too.
    """

    def __init__(
        self, verdict: Verdict, counts: Mapping[str, int], fits: Fits | None = None
    ) -> None:
        self._fits = {} if fits is None else fits
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
            hashes = murmur2(pa.array([*homes], pa.binary())) & np.int32(0x7FFFFFFF)
            others = self._fits.setdefault(topic, [])
            belongs = _belongs(hashes, lying, max(1, self._counts.get(topic, 1)), others)
            if np.array_equal(belongs, lying):
                others.append((hashes, lying))
            for row in np.flatnonzero(lying != belongs).tolist():
                _, witness = [*homes.values()][row]
                text = f"{witness} belongs into partition {belongs[row]}"
                self.verdict.find("wrong-partition", text)


def _belongs(
    hashes: NDArray[np.int32],
    lying: NDArray[np.int32],
    count: int,
    others: list[tuple[NDArray[np.int32], NDArray[np.int32]]],
) -> NDArray[np.int32]:
    """Return the partitions of the keys by the greatest number that fits them all, if any does.

    ``others``: keys and partitions that it has to fit, too; else what fits these counts.
    """
    every = [(hashes, lying), *others]
    return hashes % np.int32(_fitting(every, count) or _fitting(others, count) or count)


def _fitting(every: list[tuple[NDArray[np.int32], NDArray[np.int32]]], count: int) -> int | None:
    least = max((int(lying.max()) for _, lying in every), default=count)
    for fewer in range(count, least, -1):
        if all(np.array_equal(hashes % np.int32(fewer), lying) for hashes, lying in every):
            return fewer
    return None
