"""A reader's part in its consumer group: what it was assigned, and what others may have read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from streaming.clients.parallel import ParallelConsumer
from streaming.places import TopicPartition


class Membership:
    """Subscribes a consumer, and takes its assignments.

    ``doubt`` gets partitions that others read from now on, or may have read. By an eager protocol
    (not ``cooperative``) all are revoked in each rebalance, and most come back at once. If the
    group removed the reader meanwhile, its member id is another, and others may have read them all.

    A consumer that was not polled for `max.poll.interval.ms` is out of the group. librdkafka
    reports it, but keeps the partitions if an assignment was waiting for a poll: until the session
    has timed out it would read beside the other readers. Their records are not taken here, and the
    first one makes it subscribe again. Called by the thread that polls.
    """

    def __init__(
        self,
        consumer: Any,
        topics: Sequence[str],
        doubt: Callable[[set[TopicPartition]], None],
        *,
        cooperative: bool,
    ) -> None:
        self.parallel: ParallelConsumer[Any] | None = None
        self._consumer = consumer
        self._topics = list(topics)
        self._doubt = doubt
        self._cooperative = cooperative
        self._revoked_now: set[TopicPartition] = set()
        self._member = ""
        self._not_ours: set[TopicPartition] = set()
        self._is_subscribed_again = False
        self._subscribe()

    def lose_all(self) -> None:
        """Note that the consumer is out of the group: others may have all of its partitions."""
        self._not_ours = pairs(self._consumer.assignment())
        self._is_subscribed_again = False
        if self.parallel is not None:
            self.parallel.lost(self._not_ours)
        self._doubt(self._not_ours | self._revoked_now)
        self._revoked_now = set()

    def has(self, partition: TopicPartition) -> bool:
        """Return whether a record that came is of a partition which this reader has."""
        if partition not in self._not_ours:
            return True
        if not self._is_subscribed_again:
            self._is_subscribed_again = True
            self._consumer.unsubscribe()
            self._subscribe()
        return False

    def _subscribe(self) -> None:
        given = {"on_assign": self._assigned, "on_revoke": self._revoked, "on_lost": self._lost}
        self._consumer.subscribe(self._topics, **given)

    def _revoked(self, _consumer: Any, places: list[Any]) -> None:
        revoked = pairs(places)
        self._not_ours -= revoked
        if self.parallel is not None:
            self.parallel.revoked(revoked)
        if self._cooperative:
            self._doubt(revoked)
        else:
            self._revoked_now, self._member = revoked, self._consumer.memberid()

    def _lost(self, _consumer: Any, places: list[Any]) -> None:
        lost = pairs(places)
        self._not_ours -= lost
        if self.parallel is not None:
            self.parallel.lost(lost)
        self._doubt(lost)

    def _assigned(self, _consumer: Any, places: list[Any]) -> None:
        assigned = pairs(places)
        self._not_ours -= assigned
        gone, self._revoked_now = self._revoked_now, set()
        if gone and self._consumer.memberid() == self._member:
            gone = gone - assigned
        self._doubt(gone)
        if self.parallel is not None:
            self.parallel.assigned(assigned)


def pairs(places: list[Any]) -> set[TopicPartition]:
    """Partitions, as librdkafka names them, as (topic, partition)."""
    return {(place.topic, place.partition) for place in places}
