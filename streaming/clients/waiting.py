"""What a reader has taken and not given out yet, and what it may commit.

librdkafka counts a record as read when it leaves it. Here it counts when it is given out: what
something of the user's raises (`resume`, a signal's handler as that of Ctrl-C) loses nothing. So it
is given out in one step without a call, in which Python handles signals, and counted in the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from streaming.clients.committing import commit
from streaming.clients.deliveries import Delivery
from streaming.clients.followed import FollowedLines
from streaming.clients.progress import Completeness
from streaming.errors import SequencerError
from streaming.places import StreamPoint, TopicPartition

D = TypeVar("D", bound=Delivery)


class Waiting(Generic[D]):
    """At most one delivery waits; ``lines`` judge whether it is a repeat.

    ``read`` returns the delivery that a message is, or, where it is none for this reader, the next
    offset; ``completeness`` notes up to where a partition was given out or passed over.

    What `resume` raises is raised before its line has noted the delivery: `resume` is asked again.
    What `on_hole` and `on_disorder` raise is raised behind that: they are called once. An interrupt
    in between may leave out a hole or a disorder, never the delivery.
    """

    def __init__(
        self, lines: FollowedLines, read: Callable[[Any], D | int], completeness: Completeness
    ) -> None:
        self._lines = lines
        self._read = read
        self._completeness = completeness
        self.delivery: D | None = None
        self._given: D | None = None
        self._asked: tuple[StreamPoint | None, bool] | None = None
        self._is_cut_short = False
        self._committed: dict[TopicPartition, int] = {}

    def take(self, consumer: Any, timeout_s: float) -> D | int | None:
        """Take the next delivery, which waits then; the next offset where a record is none.

        What a signal's handler raises drops the record that librdkafka has given out just then.
        """
        self.count_given()
        if self._is_cut_short:
            self._step_back(consumer)
        self._is_cut_short = True
        message, found = consumer.poll(timeout_s), None
        if message is not None:
            try:
                found = self._read(message)
            except SequencerError:
                self._is_cut_short = False
                if not message.error():
                    self._passed(message.topic(), message.partition(), message.offset() + 1)
                raise
            if isinstance(found, int):
                self._passed(message.topic(), message.partition(), found)
            else:
                self.delivery = found
        self._is_cut_short = False
        return found

    def judged(self) -> tuple[D, bool]:
        """Return the delivery, which waits no more, and whether it is no repeat."""
        assert self.delivery is not None  # noqa: S101  (asked before)
        self.count_given()
        place = self.delivery.incarnation, self.delivery.sequence
        if self._asked is None:
            self._asked = self._lines.asked(self.delivery)
            self._lines.follow(self.delivery, *self._asked)
        elif self._lines.last(self.delivery) != place:
            self._lines.follow(self.delivery, *self._asked)
        (last, _), delivery = self._asked, self.delivery
        self.delivery, self._given, self._asked = None, delivery, None
        return delivery, last is None or place > last

    def count_given(self) -> None:
        """Count what was given out last as read."""
        if (given := self._given) is not None:
            self._passed(given.topic, given.partition, given.offset + 1)
            self._given = None

    def commit(self, consumer: Any) -> None:
        """Commit, where it has moved, up to where all was given out; KafkaUnavailable."""
        self.count_given()
        places = []
        for place in consumer.position(consumer.assignment()):  # which has the leader's epoch
            partition = (place.topic, place.partition)
            place.offset = self._completeness.positions.get(partition, -1)
            if place.offset >= 0 and place.offset != self._committed.get(partition):
                places.append(place)
        commit(consumer, places)
        self._committed |= {(each.topic, each.partition): each.offset for each in places}

    def _step_back(self, consumer: Any) -> None:
        """Have what was dropped read again: at most one record."""
        for place in consumer.position(consumer.assignment()):
            partition = (place.topic, place.partition)
            position = self._completeness.positions.get(partition, place.offset - 1)
            if 0 <= position < place.offset:
                place.offset = position
                consumer.seek(place)

    def _passed(self, topic: str, partition: int, position: int) -> None:
        before = self._completeness.positions.get((topic, partition), position + 1)
        if position < before:  # it came back, or was made anew: what is committed may be another
            self._committed.pop((topic, partition), None)
        self._completeness.read(topic, partition, position)
