"""How large records are that a batch may read, before it is settled how many it reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace

from streaming.source.fetching import Fetching
from streaming.source.ranges import Range
from streaming.wire.brokers import Brokers
from streaming.wire.fetched import Fetched, Head, Unreadable, body_of, cut_size

PLACES_MAX = 16
"""Of this many partitions, those with most left to read, the first 64 KiB of it are looked at."""


def bytes_of(brokers: Brokers, there: Iterable[Range], share: float = 0.0) -> float:
    """Estimate the decompressed size of all of it from a few batches of each; KafkaError.

    From those that are this ``share`` of the way through: 0 the first, 1 the last. Of a partition
    that is not asked an offset is taken for what the others' are on the average.
    """
    by_size = sorted(there, key=len, reverse=True)
    some = [_at(each, each.first + int(share * (len(each) - 1))) for each in by_size[:PLACES_MAX]]
    found = _first_of(brokers, some)
    # A batch that the answer cuts may be the first large one, behind a transaction's marker, say.
    behind = {home: part.heads[-1].last + 1 for home, part in found.items() if _larger(part)}
    larger = _first_of(
        brokers,
        [
            _at(each, offset)
            for each in by_size
            if (offset := behind.get((each.number, each.partition), each.stop)) < each.stop
        ],
    )
    each_takes = {
        home: _offset_bytes(part, *filter(None, [larger.get(home)])) for home, part in found.items()
    }
    mean = sum(each_takes.values()) / len(each_takes) if each_takes else 0.0
    return sum(len(each) * each_takes.get((each.number, each.partition), mean) for each in by_size)


def _at(there: Range, offset: int) -> Range:
    return replace(there, first=offset, stop=offset + 1)


def _first_of(brokers: Brokers, some: list[Range]) -> dict[tuple[int, int], Fetched]:
    """The first answer for each, by topic number and partition."""
    return {
        (part.topic, part.partition): part
        for part in Fetching(brokers, some, {each.home: 1.0 for each in some})
    }


def _larger(part: Fetched) -> bool:
    """Whether the batch that the answer cuts is larger than all before it."""
    return cut_size(part) > part.heads[-1].end


def _offset_bytes(*parts: Fetched) -> float:
    """Bytes by offsets, as compaction and aborted transactions leave some without a record."""
    offsets = 0
    for part in parts:
        first = part.heads[0].first if part.heads[0].magic >= 2 else part.first
        offsets += part.heads[-1].last + 1 - first
    return sum(_size(part, head) for part in parts for head in part.heads) / offsets


def _size(part: Fetched, head: Head) -> int:
    """A batch's bytes, decompressed where it can be read; who reads it says where it cannot.

    As many as it takes in the log at least: compaction leaves batches without a record.
    """
    size = head.end - head.begin
    if head.magic >= 2:
        with contextlib.suppress(Unreadable):
            return max(size, body_of(part, head).size)
    return size
