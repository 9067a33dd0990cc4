"""Which delivery may be handled now, and what may be committed: channels side by side, in order.

A state machine without Kafka, threads or a clock, which `parallel` feeds. Times are seconds of one
clock. A partition whose deliveries belong to the channels a and b:

    offset           10  11  12  13  14  15        a: 10 runs, 12 and 14 wait behind it
    channel           a   b   a   b   a            b: 11 and 13 are finished
                      ^                   ^
           committable: 10         position: 15    finished beyond the prefix: 2

One delivery of a channel runs at a time. One that failed stays its channel's first, and the channel
is *parked*: nothing of it runs before the time of the next try. A partition that another reader
gets is forgotten; handlers of it that still run hold up their own channels, in case the partition
comes back, and nothing else: what they did is not counted.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from streaming.clients.limits import Limits, Retry
from streaming.places import TopicPartition

Name = tuple[str, int, bytes | None]
"""A channel: its partition, and its name there."""

T = TypeVar("T")


@dataclass(slots=True)
class Mark:
    """An offset that was read, and whether its delivery is finished."""

    offset: int
    finished: bool = False


@dataclass(slots=True, eq=False)
class Partition:
    """What is read here of one partition, since it came.

    ``tail``: offsets from the first unfinished one on; ``position``: the next one to be read.
    ``finished`` counts in the tail; ``size`` (bytes) is of the unfinished ones; ``parked`` counts
    deliveries of channels whose first one failed. ``paused`` says why nothing is read.
    """

    position: int | None = None
    committed: int | None = None
    tail: deque[Mark] = field(default_factory=deque)
    finished: int = 0
    size: int = 0
    parked: int = 0
    running: int = 0
    paused: str = ""
    is_leaving: bool = False
    is_gone: bool = False

    @property
    def prefix(self) -> int | None:
        """The first offset that is not finished, or else the next one to be read."""
        return self.tail[0].offset if self.tail else self.position

    @property
    def unfinished(self) -> int:
        """How many deliveries were read and are not finished."""
        return len(self.tail) - self.finished


@dataclass(slots=True, eq=False)
class Channel(Generic[T]):
    """Deliveries of one channel that wait, in order. ``failures``: of the first of them.

    ``ticket``: of its entry among the parked ones; 0: none.
    """

    name: Name
    waiting: deque[Item[T]] = field(default_factory=deque)
    is_running: bool = False
    failures: int = 0
    ticket: int = 0


@dataclass(slots=True, eq=False)
class Item(Generic[T]):
    """A delivery that was read and is not finished."""

    content: T
    mark: Mark
    size: int
    partition: Partition
    channel: Channel[T]


class Schedule(Generic[T]):
    """The deliveries that were read and are not finished, of all partitions that a reader has."""

    def __init__(self, limits: Limits, retry: Retry) -> None:
        self.limits = limits
        self.retry = retry
        self.partitions: dict[TopicPartition, Partition] = {}
        self._channels: dict[Name, Channel[T]] = {}
        self._ready: deque[Channel[T]] = deque()
        self._parked: list[tuple[float, int, Channel[T]]] = []
        self._tickets = 0

    def assign(self, partition: TopicPartition) -> None:
        """Begin with a partition; nothing is known of it."""
        self.remove([partition])
        self.partitions[partition] = Partition()

    def leave(self, partitions: Collection[TopicPartition]) -> None:
        """Start nothing more of these partitions."""
        for partition in partitions:
            if partition in self.partitions:
                self.partitions[partition].is_leaving = True

    def remove(self, partitions: Collection[TopicPartition]) -> list[T]:
        """Forget partitions; what was started before, and neither runs nor is finished."""
        for partition in partitions:
            if partition in self.partitions:
                self.partitions.pop(partition).is_gone = True
        undone = []
        for name in [name for name in self._channels if name[:2] in partitions]:
            channel = self._channels[name]
            if channel.failures and not channel.is_running:
                undone.append(channel.waiting[0].content)
            channel.waiting.clear()
            channel.failures = channel.ticket = 0
            if not channel.is_running:
                del self._channels[name]
        return undone

    def add(
        self,
        topic_partition: TopicPartition,
        offset: int,
        name: bytes | None,
        size: int,
        content: T,
    ) -> bool:
        """Take a delivery that was read; True where its partition has to pause now.

        Offsets of a partition ascend; one that does not is a ValueError, and changes nothing.
        """
        partition = self.partitions[topic_partition]
        if partition.position is not None and offset < partition.position:
            raise ValueError(f"offset {offset} comes after {partition.position - 1}")
        channel = self._channels.get((*topic_partition, name))
        if channel is None:
            channel = self._channels[*topic_partition, name] = Channel((*topic_partition, name))
        mark = Mark(offset)
        partition.tail.append(mark)  # before the position: an interrupt between the two is safe
        partition.position = offset + 1
        partition.size += size
        partition.parked += bool(channel.failures)
        channel.waiting.append(Item(content, mark, size, partition, channel))
        if len(channel.waiting) == 1 and not channel.is_running:
            self._ready.append(channel)
        return bool(self._limit_reached(partition, 1))

    def pass_over(self, topic_partition: TopicPartition, position: int) -> None:
        """Note that there is nothing to handle before ``position`` but what was taken."""
        partition = self.partitions[topic_partition]
        partition.position = max(position, partition.position or 0)

    def take(self, now_s: float) -> Item[T] | None:
        """Start the next delivery that may be handled; None where there is none now."""
        while self._parked and self._parked[0][0] <= now_s:
            _, ticket, channel = heapq.heappop(self._parked)
            if channel.ticket == ticket:
                channel.ticket = 0
                self._ready.append(channel)
        while self._ready:
            channel = self._ready.popleft()
            if channel.waiting and not channel.waiting[0].partition.is_leaving:
                item = channel.waiting.popleft()
                channel.is_running = True
                item.partition.running += 1
                return item
        return None

    def finish(self, item: Item[T]) -> bool:
        """Note that a started delivery was handled; False where its partition is gone."""
        partition, channel = item.partition, item.channel
        partition.running -= 1
        if not partition.is_gone:
            item.mark.finished = True
            partition.finished += 1
            partition.size -= item.size
            if channel.failures:
                partition.parked -= len(channel.waiting) + 1
                channel.failures = 0
            while partition.tail and partition.tail[0].finished:
                partition.tail.popleft()
                partition.finished -= 1
        self._go_on(channel)
        return not partition.is_gone

    def fail(self, item: Item[T], now_s: float) -> bool:
        """Note that a started delivery's handler failed; False where its partition is gone."""
        partition, channel = item.partition, item.channel
        partition.running -= 1
        if partition.is_gone:
            self._go_on(channel)
            return False
        channel.is_running = False
        channel.waiting.appendleft(item)
        if not channel.failures:
            partition.parked += len(channel.waiting)
        channel.failures += 1
        self._tickets += 1
        channel.ticket = self._tickets
        due_s = now_s + self.retry.delay_s(channel.failures)
        heapq.heappush(self._parked, (due_s, channel.ticket, channel))
        return True

    def next_try_s(self) -> float | None:
        """Return the time of the next try of a parked channel, perhaps an earlier one."""
        return self._parked[0][0] if self._parked else None

    def parked(self) -> Iterator[tuple[float, Item[T], int]]:
        """Parked channels: when the next try is, what is tried, and how many wait (with it)."""
        for due_s, ticket, channel in sorted(self._parked, key=lambda entry: entry[:2]):
            if channel.ticket == ticket:
                yield due_s, channel.waiting[0], len(channel.waiting)

    def running(self, partitions: Collection[TopicPartition]) -> int:
        """Count the running handlers of partitions that the reader has."""
        return sum(self.partitions[each].running for each in partitions if each in self.partitions)

    def committable(self) -> dict[TopicPartition, int]:
        """Return, by partition, the offset below which all is finished, where it has moved."""
        return {
            topic_partition: partition.prefix
            for topic_partition, partition in self.partitions.items()
            if partition.prefix is not None and partition.prefix != partition.committed
        }

    def note_committed(self, partition: TopicPartition, offset: int) -> None:
        """Note that Kafka has a partition's committed offset."""
        if partition in self.partitions:
            self.partitions[partition].committed = offset

    def pauses(self) -> tuple[dict[TopicPartition, str], list[TopicPartition]]:
        """Return the partitions to pause, each with the reason, and those to resume."""
        pause: dict[TopicPartition, str] = {}
        resume: list[TopicPartition] = []
        for topic_partition, partition in self.partitions.items():
            if not partition.paused and (why := self._limit_reached(partition, 1)):
                pause[topic_partition] = partition.paused = why
            elif partition.paused and not self._limit_reached(partition, 2):
                resume.append(topic_partition)
                partition.paused = ""
        return pause, resume

    def _limit_reached(self, partition: Partition, part: int) -> str:
        """Which limit is reached, each divided by ``part``; "" where none is."""
        limits, share = self.limits, part * len(self.partitions)
        if partition.parked >= -(-limits.parked // part):
            return f"{partition.parked:,} deliveries wait in channels whose handler fails"
        if len(partition.tail) >= -(-limits.ahead // part):
            count = len(partition.tail)
            return f"{count:,} were read from offset {partition.prefix} on, which is not finished"
        if partition.unfinished >= max(1, -(-limits.buffer_records // share)):
            return f"{partition.unfinished:,} deliveries wait"
        if partition.unfinished and partition.size >= limits.buffer_bytes // share:
            return f"{partition.size:,} bytes wait"
        return ""

    def _go_on(self, channel: Channel[T]) -> None:
        """The channel's handler ended; its next delivery may run."""
        channel.is_running = False
        if channel.waiting:
            self._ready.append(channel)
        else:
            del self._channels[channel.name]
