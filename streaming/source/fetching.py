"""Ranges of offsets read from the leaders of their partitions, read_committed.

A request to a broker is about all of its partitions that are not read yet; the next one is sent
before what came is given out, so a broker works while we do.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailableError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from streaming.arrow.fetched import Fetched, fetched
from streaming.kafka.brokers import LOOK_AGAIN_SECONDS, SECONDS_MAX, Brokers, Place
from streaming.kafka.leaders import PartitionRequests
from streaming.source.ranges import Range

READ_COMMITTED = 1
EARLIEST, LATEST = -2, -1
WAIT_MS = 500
"""A broker waits so long for what is not there yet; what we ask for is there."""
RESPONSE_BYTES_MAX = 8 * 2**20
PARTITION_BYTES_MIN, PARTITION_BYTES_MAX = 64 * 2**10, 4 * 2**20
MARGIN = 1.1
"""Of one partition is asked for what its offsets took so far, and a tenth more."""

Topic = FetchRequest.FetchTopic
Partition = Topic.FetchPartition
Asked = ListOffsetsRequest.ListOffsetsTopic
AskedPartition = Asked.ListOffsetsPartition


@dataclass(slots=True)
class Fetching(PartitionRequests):
    """Reads some ranges; ``offset_bytes`` keeps what an offset of each partition took."""

    ranges: Iterable[Range]
    offset_bytes: dict[Place, float] = field(default_factory=dict)
    left: dict[Place, Range] = field(init=False)
    answers: deque[tuple[Range, Any]] = field(default_factory=deque)
    came: deque[Fetched] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.left = {each.place: each for each in self.ranges if each.first < each.stop}

    def __iter__(self) -> Iterator[Fetched]:
        """What the brokers give, until all is read.

        KafkaError where a broker refuses, or nothing comes for SECONDS_MAX; Unreadable.
        """
        self.brokers.connect()
        deadline = time.monotonic() + SECONDS_MAX
        while self.left or self.came:
            self.poll(0 if self.came else LOOK_AGAIN_SECONDS)
            self._take_answers()
            if self.came:
                yield self.came.popleft()
                deadline = time.monotonic() + SECONDS_MAX
            elif time.monotonic() > deadline:
                raise self.last_error or KafkaTimeoutError(
                    f"nothing came of {next(iter(self.left.values()))}"
                )

    def _wanted(self) -> Iterable[Place]:
        return self.left

    def _request(self, node: int, places: list[Place]) -> None:
        topics: dict[str, list[Any]] = {}
        asked = {place: self.left[place] for place in places}
        for each in asked.values():
            topics.setdefault(each.topic, []).append(
                Partition(
                    partition=each.partition,
                    fetch_offset=each.first,
                    partition_max_bytes=self._bytes_of(each),
                )
            )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=RESPONSE_BYTES_MAX,
            isolation_level=READ_COMMITTED,
            session_id=0,
            session_epoch=-1,
            topics=[Topic(topic=name, partitions=some) for name, some in topics.items()],
            forgotten_topics_data=[],
            max_version=11,
        )
        self._ask(request, node, places, partial(self._answered, asked))

    def _bytes_of(self, wanted: Range) -> int:
        each = self.offset_bytes.get(wanted.place, PARTITION_BYTES_MAX)
        size = int((wanted.stop - wanted.first) * each * MARGIN)
        return min(max(size, PARTITION_BYTES_MIN), PARTITION_BYTES_MAX)

    def _answered(self, asked: Mapping[Place, Range], answer: Any) -> None:
        if answer.error_code:
            self._failed(for_code(answer.error_code)())
            return
        for topic in answer.responses:
            for told in topic.partitions:
                place = (topic.topic, told.partition_index)
                if told.error_code:
                    said = f"{place[0]} partition {place[1]}"
                    self._refused(topic.topic, for_code(told.error_code)(said))
                elif told.records:
                    self.answers.append((asked[place], told))

    def _take_answers(self) -> None:
        """Read what batches have come; Unreadable where they are none."""
        while self.answers:
            wanted, told = self.answers.popleft()
            aborted = told.aborted_transactions or ()
            came = fetched(
                (wanted.number, wanted.partition),
                (wanted.first, wanted.stop),
                told.records,
                [(each.producer_id, each.first_offset) for each in aborted],
            )
            self.came.append(came)
            after = came.heads[-1].last + 1
            self.offset_bytes[wanted.place] = came.heads[-1].end / (after - wanted.first)
            # Put behind the others: a broker fills its answer from the first partition on.
            del self.left[wanted.place]
            if after < wanted.stop:
                self.left[wanted.place] = replace(wanted, first=after)


def offsets(brokers: Brokers, topics: Iterable[str], which: int) -> dict[str, dict[int, int]]:
    """Each topic's partitions with their first offset (EARLIEST), or the last stable one (LATEST).

    KafkaError where a topic is missing, a broker refuses, or a leader does not answer in time.
    """
    names = sorted(topics)
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        try:
            brokers.find_leaders(names)
            found: dict[str, dict[int, int]] = brokers.manager.run(_offsets, brokers, names, which)
        except KafkaError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
            brokers.turn(LOOK_AGAIN_SECONDS)
        else:
            return found


async def _offsets(brokers: Brokers, names: list[str], which: int) -> dict[str, dict[int, int]]:
    by_node: dict[int, dict[str, list[Any]]] = {}
    for topic in names:
        for partition in sorted(brokers.manager.cluster.partitions_for_topic(topic) or ()):
            node = brokers.leaders.get((topic, partition))
            if node is None:
                raise LeaderNotAvailableError(f"{topic} partition {partition} has no leader")
            asked = AskedPartition(partition_index=partition, timestamp=which)
            by_node.setdefault(node, {}).setdefault(topic, []).append(asked)
    answers = [
        brokers.manager.send(
            ListOffsetsRequest(
                replica_id=-1,
                isolation_level=READ_COMMITTED,
                topics=[Asked(name=name, partitions=asked) for name, asked in of.items()],
                max_version=5,
            ),
            node,
        )
        for node, of in by_node.items()
    ]
    found: dict[str, dict[int, int]] = {name: {} for name in names}
    for answer in answers:
        for topic_told in (await answer).topics:
            for told in topic_told.partitions:
                if told.error_code:
                    place = f"{topic_told.name} partition {told.partition_index}"
                    raise for_code(told.error_code)(place)
                found[topic_told.name][told.partition_index] = told.offset
    if unknown := [name for name, of in found.items() if not of]:
        raise UnknownTopicOrPartitionError(", ".join(unknown))
    return found
