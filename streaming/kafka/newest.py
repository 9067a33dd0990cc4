"""Reading topics from their ends: the newest records first, as far back as time allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from streaming.config import Config
from streaming.kafka import topics
from streaming.kafka.reading import ENDS, End, Record, TopicReader
from streaming.places import TopicPartition

Found = Record
"""A record that a search found."""

STEP = 1_000
"""Offsets that are read at a time, before deciding whether to go farther back."""
SECONDS_MAX = 5.0
QUIET_SECONDS_MAX = 1.5
"""A step ends if nothing arrives for this long: its last offsets are markers of transactions."""
FETCH = {
    "fetch.wait.max.ms": 20,
    "fetch.message.max.bytes": 1_048_576,
    "queued.max.messages.kbytes": 8_192,
    **ENDS,
}


@dataclass
class Search:
    """The records found, oldest first in each partition, and the offsets searched.

    ``looked``: for each topic and partition the first offset that was read and the end.
    """

    records: list[Record] = field(default_factory=list)
    looked: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    is_whole: bool = True

    @property
    def older(self) -> dict[TopicPartition, int]:
        """Return the offset below which to look for older ones in each partition."""
        first: dict[TopicPartition, int] = {}
        for each in self.records:
            first[each.home] = min(each.offset, first.get(each.home, each.offset))
        return {
            partition: first.get(partition, begin) for partition, (begin, _) in self.looked.items()
        }

    @property
    def offsets(self) -> int:
        """Return the number of offsets searched."""
        return sum(end - first for first, end in self.looked.values())


def search(
    config: Config,
    names: Iterable[str],
    wanted: Callable[[Record], bool],
    most: int,
    *,
    seconds_max: float = SECONDS_MAX,
    enough: Callable[[Sequence[Found]], bool] | None = None,
    until: Mapping[TopicPartition, int] = MappingProxyType({}),
) -> Search:
    """Find up to ``most`` records of each partition that are ``wanted``, the newest ones.

    ``until``: the offset below which to look, for partitions whose newest ones are not wanted.
    The newest STEP offsets of each partition are always read, even if connecting took all the time.
    Reading stops after about ``seconds_max``, or when the records found are ``enough``;
    `Search.is_whole` says whether it reached the beginnings or found enough. Raises
    KafkaUnavailable, and ConfigError if a topic is missing.
    """
    counts = topics.partitions(config, names)
    partitions = [(name, number) for name, count in counts.items() for number in range(count)]
    deadline = time.monotonic() + seconds_max
    with TopicReader(config, "console", settings=FETCH) as reader:
        bounds = {
            partition: _bounds(reader, partition, until.get(partition)) for partition in partitions
        }
        result = Search(looked={partition: (end, end) for partition, (_, end) in bounds.items()})
        found: dict[TopicPartition, list[Record]] = {partition: [] for partition in partitions}
        step, has_looked = STEP, False
        while True:
            began = time.monotonic()
            parts = {}
            for partition, (first, _) in bounds.items():
                at = result.looked[partition][0]
                if at > first and len(found[partition]) < most:
                    parts[partition] = (max(first, at - step), at)
            if enough is not None and enough([each for part in found.values() for each in part]):
                break
            if not parts or (has_looked and began > deadline):
                result.is_whole = not parts
                break
            older: dict[TopicPartition, list[Record]] = {partition: [] for partition in parts}
            for record in between(reader, parts):
                if wanted(record):
                    older[record.home].append(record)
            for partition, (begin, _) in parts.items():
                found[partition] = older[partition] + found[partition]
                result.looked[partition] = (begin, bounds[partition][1])
            has_looked, ended = True, time.monotonic()
            if deadline - ended > 4 * (ended - began):  # twice as many take twice as long
                step *= 2
    result.records = [record for each in found.values() for record in each[-most:]]
    return result


def _bounds(reader: TopicReader, partition: TopicPartition, until: int | None) -> tuple[int, int]:
    """Return where to look in a partition: its first offset, and the end or ``until``."""
    low, end = reader.bounds(partition, SECONDS_MAX)
    return low, end if until is None else max(low, min(end, until))


def around(config: Config, topic: str, partition: int, offset: int, most: int) -> list[Record]:
    """Return the records of a partition that lie at most ``most`` offsets from one.

    Some may be missing: deleted, markers of transactions, not written yet.
    """
    if partition >= topics.partitions(config, [topic])[topic]:
        return []
    with TopicReader(config, "console", settings=FETCH) as reader:
        low, end = reader.bounds((topic, partition), SECONDS_MAX)
        part = max(low, offset - most), min(end, offset + most + 1)
        if part[0] >= part[1]:
            return []
        return list(between(reader, {(topic, partition): part}))


def between(reader: TopicReader, parts: dict[TopicPartition, tuple[int, int]]) -> Iterator[Record]:
    """Yield the committed records of partitions between two offsets of each."""
    pending = set(parts)
    reader.assign({partition: begin for partition, (begin, _) in parts.items()})
    moved = time.monotonic()
    while pending and time.monotonic() - moved < QUIET_SECONDS_MAX:
        taken = reader.take(0.1, 500)
        moved = time.monotonic() if taken else moved
        for each in taken:
            if each.home not in pending:
                continue
            if isinstance(each, End) or each.offset >= parts[each.home][1]:
                pending.discard(each.home)
            else:
                yield each
