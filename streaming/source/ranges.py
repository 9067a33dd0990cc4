"""What a batch reads of each partition, and which task reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from streaming.places import TopicPartition
from streaming.source.positions import Log, Offsets

NEARLY = 1.2
"""A task's share may be so much larger than fair where that leaves a partition whole."""

UNKNOWN = Log()


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of a partition, from ``first`` to before ``stop``; ``number`` is the topic's.

    ``id`` is the topic's in Kafka ("": unknown); ``epoch`` is that of the leader who said that
    there is so much (-1: unknown).
    """

    topic: str
    number: int
    partition: int
    first: int
    stop: int
    id: str = ""
    epoch: int = -1

    @property
    def home(self) -> TopicPartition:
        """The topic, and the number of the partition."""
        return (self.topic, self.partition)

    def __len__(self) -> int:
        return self.stop - self.first


def limited(start: Offsets, ends: Offsets, records_max: int) -> dict[str, dict[str, int]]:
    """Where a batch ends that reads at most this many offsets (0: any number) of what is there.

    Each partition gives its share of what is left to read, but one offset at least, and shares are
    rounded so that their sum is exactly that: a few records more would be a batch of their own. A
    partition that is new is read from its beginning.
    """
    first = {
        (topic, at): start.get(topic, {}).get(at, 0) for topic, of in ends.items() for at in of
    }
    unread = {
        partition: max(ends[partition[0]][partition[1]] - begin, 0)
        for partition, begin in first.items()
    }
    total = sum(unread.values())
    out: dict[str, dict[str, int]] = {}
    before = 0
    for (topic, at), begin in first.items():
        share = unread[topic, at]
        if 0 < records_max < total and share:
            until = before + share
            share = max(until * records_max // total - before * records_max // total, 1)
            before = until
        out.setdefault(topic, {})[at] = begin + share
    return out


def ranges(
    start: Offsets,
    end: Offsets,
    numbers: Mapping[str, int],
    logs: Mapping[str, Log] | None = None,
) -> list[Range]:
    """What lies between two offsets, in order of topic and partition, of these ``logs``."""
    known = logs or {}
    return [
        Range(
            *(topic, numbers[topic], int(at), begin, stop),
            *(known.get(topic, UNKNOWN).id, known.get(topic, UNKNOWN).epochs.get(at, -1)),
        )
        for topic in sorted(end, key=numbers.__getitem__)
        for at, stop in sorted(end[topic].items(), key=lambda each: int(each[0]))
        if (begin := start.get(topic, {}).get(at, 0)) < stop
    ]


def shared(all_of_it: list[Range], tasks: int) -> Iterator[list[Range]]:
    """The same in at most this many shares of about equal size; few partitions are divided."""
    unread = sum(map(len, all_of_it))
    fair = -(-unread // tasks)
    share: list[Range] = []
    size = 0
    for each in all_of_it:
        rest = each
        while size + len(rest) > fair * NEARLY:
            room = fair - size
            if room > fair * (NEARLY - 1):
                cut = rest.first + room
                share.append(replace(rest, stop=cut))
                rest = replace(rest, first=cut)
                size += room
            yield share
            unread, tasks = unread - size, tasks - 1
            fair = -(-unread // tasks)
            share, size = [], 0
        share.append(rest)
        size += len(rest)
    if share:
        yield share
