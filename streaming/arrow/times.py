"""Times of records (ms) by partition, for progress marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streaming.arrow.columns import Int64s, flat


def newest_read(
    before: Mapping[str, int], records: pa.Table, inputs: Sequence[str]
) -> dict[str, int]:
    """Return the largest time read from each input partition, by `topic/partition`.

    ``records`` have the columns of RECORD; those of topics that are no inputs are ignored.
    """
    newest = dict(before)
    topic, partition, time_ms = (
        flat(records[name]).to_numpy().astype(np.int64)
        for name in ("topic", "partition", "timestamp")
    )
    places, which = np.unique(topic << 32 | partition, return_inverse=True)
    most = np.full(len(places), np.iinfo(np.int64).min)
    np.maximum.at(most, which, time_ms)
    for index, time in zip(places.tolist(), most.tolist(), strict=True):
        if index >> 32 < len(inputs):
            name = f"{inputs[index >> 32]}/{index & 0xFFFFFFFF}"
            newest[name] = max(time, newest.get(name, time))
    return newest


def oldest_in(times_ms: Int64s, partitions: NDArray[np.int32]) -> dict[str, int]:
    """Return the least time of each partition that occurs."""
    present, which = np.unique(partitions, return_inverse=True)
    least = np.full(len(present), np.iinfo(np.int64).max)
    np.minimum.at(least, which, times_ms)
    return {str(at): time for at, time in zip(present.tolist(), least.tolist(), strict=True)}
