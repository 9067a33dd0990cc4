"""How large records are that a batch may read, before it is settled how many it reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace

from streaming.source.fetching import Fetching
from streaming.source.ranges import Range
from streaming.wire.brokers import Brokers
from streaming.wire.fetched import Fetched, Head, Unreadable, body_of

PLACES_MAX = 16
"""Of this many partitions, those with most left to read, the first 64 KiB of it are looked at."""


def bytes_of(brokers: Brokers, there: Iterable[Range]) -> float:
    """Estimate the decompressed size of all of it from its first batches; KafkaError.

    Of a partition that is not asked an offset is taken for what the others' are on the average.
    """
    by_size = sorted(there, key=len, reverse=True)
    some = [replace(each, stop=each.first + 1) for each in by_size[:PLACES_MAX]]
    each_takes = {
        (part.topic, part.partition): _offset_bytes(part)
        for part in Fetching(brokers, some, {each.home: 1.0 for each in some})
    }
    found = [each_takes[each.number, each.partition] for each in some]
    mean = sum(found) / len(found) if found else 0.0
    return sum(len(each) * each_takes.get((each.number, each.partition), mean) for each in by_size)


def _offset_bytes(part: Fetched) -> float:
    """Bytes by offsets, as compaction and aborted transactions leave some without a record."""
    first = part.heads[0].first if part.heads[0].magic >= 2 else part.first
    offsets = part.heads[-1].last + 1 - first
    return sum(_size(part, head) for head in part.heads) / offsets


def _size(part: Fetched, head: Head) -> int:
    """A batch's bytes, decompressed where it can be read; who reads it says where it cannot.

    As many as it takes in the log at least: compaction leaves batches without a record.
    """
    size = head.end - head.begin
    if head.magic >= 2:
        with contextlib.suppress(Unreadable):
            return max(size, body_of(part, head).size)
    return size
