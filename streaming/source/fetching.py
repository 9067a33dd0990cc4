"""Ranges of offsets read from the leaders of their partitions, read_committed.

A request to a broker is about all of its partitions that are not read yet; the next one is sent
before what came is given out, so a broker works while we do.

What is read is what was planned, or an error: requests name a topic by its id, and say for which
leader epoch they are meant, so that a replica that is behind does not answer. A leader that was
elected since then is asked first whether it has all of it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kafka.errors import KafkaTimeoutError, OffsetOutOfRangeError, for_code

from streaming.places import TopicPartition
from streaming.source.losses import (
    CANNOT_REPEAT,
    CUT_BACK,
    DELETED,
    GO_ON,
    MADE_AGAIN,
    UNFINISHED,
    Loss,
    lost,
)
from streaming.source.ranges import Range
from streaming.wire.bounds import EARLIEST, BoundsReader, epoch_ends
from streaming.wire.brokers import LOOK_AGAIN_SECONDS, SECONDS_MAX
from streaming.wire.fetch import Part, aborted, fetch, results
from streaming.wire.fetched import Fetched, fetched
from streaming.wire.leaders import PartitionRequests

ANOTHER_SECONDS = 5.0
"""A topic with another id is another one, if brokers say so for this long: some may be behind."""
PARTITION_BYTES_MIN, PARTITION_BYTES_MAX = 64 * 2**10, 4 * 2**20
MARGIN = 1.1
"""A request asks for 10 % more bytes than a partition's offsets have needed so far."""


@dataclass(slots=True)
class Fetching(PartitionRequests):
    """Reads some ranges; ``offset_bytes`` keeps what an offset of each partition took.

    ``repeated``: of a batch that was planned before.
    """

    ranges: Iterable[Range]
    offset_bytes: dict[TopicPartition, float] = field(default_factory=dict)
    repeated: bool = False
    left: dict[TopicPartition, Range] = field(init=False)
    answers: deque[tuple[Range, Any]] = field(default_factory=deque)
    came: deque[Fetched] = field(default_factory=deque)
    doubtful: set[TopicPartition] = field(default_factory=set)
    others_since: float | None = None
    seen: int = -1

    def __post_init__(self) -> None:
        self.left = {each.home: each for each in self.ranges if each.first < each.stop}
        for each in self.left.values():
            self.brokers.topology.require(each.topic, each.id, {each.partition: each.epoch})

    def __iter__(self) -> Iterator[Fetched]:
        """What the brokers give, until all is read.

        InputLost where it is no longer there, Unreadable where it is damaged, KafkaError where a
        broker refuses, or nothing comes for SECONDS_MAX.
        """
        self.brokers.connect()
        self.stale_topics.update(
            topic for topic, at in self.left if (topic, at) not in self.brokers.leaders
        )
        if self.stale_topics:
            self._look_for_leaders()
        deadline = time.monotonic() + SECONDS_MAX
        while self.left or self.came:
            self._look_at_logs()
            self.poll(0 if self.came else LOOK_AGAIN_SECONDS)
            self._take_answers()
            if self.came:
                yield self.came.popleft()
                deadline = time.monotonic() + SECONDS_MAX
            elif time.monotonic() > deadline:
                each = next(iter(self.left.values()))
                raise self.last_error or KafkaTimeoutError(
                    f"nothing came of {each.topic}, partition {each.partition}, from offset "
                    f"{each.first} on, for {SECONDS_MAX:.0f} s (if it is in tiered storage, the "
                    "brokers' remote.fetch.max.wait.ms may be too short)"
                )

    def _look_at_logs(self) -> None:
        """Compare what leaders have now with what was planned; InputLost where some is lost."""
        if self.doubtful:
            self._ask_for_beginnings()
        if self.seen != self.brokers.topology.version:
            self.seen = self.brokers.topology.version
            self._require_same_topics()
            self._ask_new_leaders()

    def _ask_for_beginnings(self) -> None:
        """A replica did not have an offset: does the leader, or was it deleted?"""
        partitions, self.doubtful = self.doubtful & self.left.keys(), set()
        bounds = BoundsReader(self.brokers, {topic for topic, _ in partitions})
        bounds.refresh()
        first = bounds(EARLIEST)
        self._require(
            Loss(each.topic, each.partition, DELETED, each.first, begin)
            for each in map(self.left.__getitem__, sorted(partitions))
            if (begin := first[each.topic][each.partition].offset) > each.first
        )

    def _require_same_topics(self) -> None:
        ids = self.brokers.topology.ids
        others = [
            each
            for each in self.left.values()
            if each.id and ids.get(each.topic, each.id) not in ("", each.id)
        ]
        self.stale_topics.update(each.topic for each in others)
        if not others:
            self.others_since = None
        elif self.others_since is None:
            self.others_since = time.monotonic()
        elif time.monotonic() - self.others_since > ANOTHER_SECONDS:
            self._require(
                Loss(each.topic, each.partition, MADE_AGAIN, each.first, 0) for each in others
            )

    def _ask_new_leaders(self) -> None:
        epochs = self.brokers.topology.epochs
        planned = {
            each.home: each.epoch
            for each in self.left.values()
            if 0 <= each.epoch < epochs.get(each.home, -1)
        }
        ends = epoch_ends(self.brokers, planned) if planned else {}
        self._require(
            Loss(*partition, CUT_BACK, self.left[partition].stop, end)
            for partition, end in ends.items()
            if 0 <= end < self.left[partition].stop
        )

    def _require(self, losses: Iterable[Loss]) -> None:
        if found := list(losses):
            raise lost(found, UNFINISHED, CANNOT_REPEAT if self.repeated else GO_ON)

    def _wanted(self) -> Iterable[TopicPartition]:
        unsure = self.doubtful or self.others_since is not None
        return () if unsure or self.seen != self.brokers.topology.version else self.left

    def _request(self, node: int, partitions: list[TopicPartition]) -> None:
        asked = {partition: self.left[partition] for partition in partitions}
        parts = [
            Part(
                each.home,
                each.id,
                self.brokers.topology.epochs.get(each.home, -1),
                each.first,
                self._bytes_of(each),
            )
            for each in asked.values()
        ]
        self._ask(fetch(parts), node, partitions, partial(self._answered, asked, parts))

    def _bytes_of(self, wanted: Range) -> int:
        each = self.offset_bytes.get(wanted.home, PARTITION_BYTES_MAX)
        size = int((wanted.stop - wanted.first) * each * MARGIN)
        return min(max(size, PARTITION_BYTES_MIN), PARTITION_BYTES_MAX)

    def _answered(
        self, asked: Mapping[TopicPartition, Range], parts: list[Part], answer: Any
    ) -> None:
        if answer.error_code:
            self._failed(for_code(answer.error_code)())
            return
        for partition, result in results(answer, parts):
            if result.error_code == OffsetOutOfRangeError.errno:
                self.doubtful.add(partition)
                self.replicas.pop(partition, None)
                self.rest_until = time.monotonic() + LOOK_AGAIN_SECONDS
            elif result.error_code:
                said = f"{partition[0]} partition {partition[1]}"
                self._refused(partition[0], for_code(result.error_code)(said))
            elif result.records:
                self.answers.append((asked[partition], result))
            else:
                self._read_from(partition, result.preferred_read_replica)

    def _take_answers(self) -> None:
        """Read what batches have come; Unreadable where they are none.

        A range is taken once: while leaders are looked for its answer may come, and it was not
        taken yet when the next requests are sent.
        """
        while self.answers:
            wanted, result = self.answers.popleft()
            if self.left.get(wanted.home) is not wanted:
                continue
            came = fetched(
                (wanted.number, wanted.partition),
                (wanted.first, wanted.stop),
                result.records,
                aborted(result),
            )
            self.came.append(came)
            after = came.heads[-1].last + 1
            self.offset_bytes[wanted.home] = came.heads[-1].end / (after - wanted.first)
            # Put behind the others: a broker fills its answer from the first partition on.
            del self.left[wanted.home]
            if after < wanted.stop:
                self.left[wanted.home] = replace(wanted, first=after)
