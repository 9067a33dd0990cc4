"""Messages of several partitions in one order: by time, and in each partition as they lie there.

What was there at the beginning is merged, which needs the next message of every partition; so
`ByTime` holds messages back until each partition has given one, or has no more.

    a: 1 4 5          a: 1, b: 2 are the next ones: 1 goes out
    b: 2 3 9    ->    then a: 4, b: 2: 2 goes out, and so on: 1 2 3 4 5 9
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from streaming.places import TopicPartition

if TYPE_CHECKING:
    from streaming.kafka.reading import Record

WAITING_MAX = 2_000
"""Messages of a partition that wait for others: it is paused until they have gone."""


class ByTime:
    """Merges messages by their timestamps.

    ``open``: the partitions that have more of what was there at the beginning. With none of them
    every message goes out as it comes.
    """

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.open = set(partitions)
        self._paused: set[TopicPartition] = set()
        self._waiting: dict[TopicPartition, deque[Record]] = {each: deque() for each in self.open}

    def put(self, message: Record) -> None:
        """Take the next message of its partition."""
        self._waiting[message.home].append(message)

    def end(self, partition: TopicPartition) -> None:
        """Note that a partition has given all that was there."""
        self.open.discard(partition)

    def ready(self) -> Iterator[Record]:
        """Yield the messages before which no other can come, in order."""
        while all(self._waiting[each] for each in self.open):
            first = min(
                ((queue[0].timestamp, each) for each, queue in self._waiting.items() if queue),
                default=None,
            )
            if first is None:
                return
            yield self._waiting[first[1]].popleft()

    def paces(self) -> tuple[set[TopicPartition], set[TopicPartition]]:
        """Return the partitions to pause, of which enough waits, and those to go on with."""
        waiting = {each: len(queue) for each, queue in self._waiting.items()}
        pause = {each for each in self._waiting if waiting[each] >= WAITING_MAX} - self._paused
        go_on = {each for each in self._paused if waiting[each] < WAITING_MAX // 2}
        self._paused = (self._paused | pause) - go_on
        return pause, go_on
