"""Reading topics from their ends: the newest records first, as far back as time allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from streaming.config import Config
from streaming.kafka import topics
from streaming.kafka.reading import ENDS, End, Record, TopicPartition, TopicReader

Found = Record
"""A record, where it is the find of a search."""

STEP = 2_000
"""Offsets that are read at a time, before a decision whether to go farther back."""
SECONDS_MAX = 5.0
QUIET_SECONDS_MAX = 1.5
"""A step ends where nothing comes for this long: its last offsets are markers of transactions."""
FETCH = {
    "fetch.wait.max.ms": 20,
    "fetch.message.max.bytes": 1_048_576,
    "queued.max.messages.kbytes": 8_192,
    **ENDS,
}


@dataclass
class Search:
    """What was found, oldest first in each partition, and how far back was looked.

    ``looked``: for each topic and partition the first offset that was read and the end.
    """

    records: list[Record] = field(default_factory=list)
    looked: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    is_whole: bool = True

    @property
    def offsets(self) -> int:
        """How many offsets were looked at."""
        return sum(end - first for first, end in self.looked.values())


def search(
    config: Config,
    names: Iterable[str],
    wanted: Callable[[Record], bool],
    most: int,
    *,
    seconds_max: float = SECONDS_MAX,
    enough: Callable[[Sequence[Found]], bool] | None = None,
) -> Search:
    """Find up to ``most`` records of each partition that are ``wanted``, the newest ones.

    Reading stops after about ``seconds_max``, or where the records found so far are ``enough``;
    `Search.is_whole` says whether it came to the beginnings or found them. Raises KafkaUnavailable,
    and ConfigError where a topic is missing.
    """
    counts = topics.partitions(config, names)
    places = [(name, number) for name, count in counts.items() for number in range(count)]
    deadline = time.monotonic() + seconds_max
    with TopicReader(config, "console", settings=FETCH) as reader:
        bounds = {place: reader.bounds(place, SECONDS_MAX) for place in places}
        result = Search(looked={place: (end, end) for place, (_, end) in bounds.items()})
        found: dict[TopicPartition, list[Record]] = {place: [] for place in places}
        step = STEP
        while True:
            began = time.monotonic()
            parts = {}
            for place, (first, _) in bounds.items():
                at = result.looked[place][0]
                if at > first and len(found[place]) < most:
                    parts[place] = (max(first, at - step), at)
            if enough is not None and enough([each for part in found.values() for each in part]):
                break
            if not parts or began > deadline:
                result.is_whole = not parts
                break
            older: dict[TopicPartition, list[Record]] = {place: [] for place in parts}
            for record in _between(reader, parts):
                if wanted(record):
                    older[record.home].append(record)
            for place, (begin, _) in parts.items():
                found[place] = older[place] + found[place]
                result.looked[place] = (begin, bounds[place][1])
            ended = time.monotonic()
            if deadline - ended > 4 * (ended - began):  # twice as many take twice as long
                step *= 2
    result.records = [record for each in found.values() for record in each[-most:]]
    return result


def at_place(config: Config, topic: str, partition: int, offset: int) -> Record | None:
    """Return the record at a place; None where there is none (deleted, a marker, not written)."""
    if partition >= topics.partitions(config, [topic])[topic]:
        return None
    with TopicReader(config, "console", settings=FETCH) as reader:
        return next(_between(reader, {(topic, partition): (offset, offset + 1)}), None)


def _between(reader: TopicReader, parts: dict[TopicPartition, tuple[int, int]]) -> Iterator[Record]:
    """Yield the committed records of partitions between two offsets of each."""
    pending = set(parts)
    reader.assign({place: begin for place, (begin, _) in parts.items()})
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
