"""Committing offsets while reading goes on: one commit at a time, tried again where Kafka fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from streaming.errors import KafkaUnavailable
from streaming.places import TopicPartition

ANSWER_SECONDS_MAX = 60.0
REBALANCE_SECONDS_MAX = 10.0
PAUSE_SECONDS = 0.05

logger = logging.getLogger("streaming.clients")


class Commits:
    """Commits of one consumer, all made by the thread that reads."""

    def __init__(self, consumer: Any, every_s: float) -> None:
        self._consumer = consumer
        self._every_s = every_s
        self._next_s = 0.0
        self._in_flight_until_s: float | None = None
        self._is_failing = False

    def begin(self, offsets: Mapping[TopicPartition, int], now_s: float) -> None:
        """Send a commit, if it is time for one and none is in flight."""
        from confluent_kafka import KafkaException  # noqa: PLC0415  (a cheap import of this package)

        if not offsets or now_s < self._next_s:
            return
        if self._in_flight_until_s is not None and now_s < self._in_flight_until_s:
            return
        self._next_s = now_s + self._every_s
        self._in_flight_until_s = now_s + ANSWER_SECONDS_MAX
        try:
            self._consumer.commit(offsets=_places(offsets), asynchronous=True)
        except KafkaException as error:
            self._in_flight_until_s = None
            self._note(error.args[0])

    def answered(self, error: Any, partitions: list[Any]) -> Iterator[tuple[str, int, int]]:
        """Take Kafka's answer; topic, partition and offset of what was committed."""
        self._in_flight_until_s = None
        failed = error or _first_error(partitions)
        self._note(failed)
        if error is None:
            for each in partitions:
                if each.error is None:
                    yield each.topic, each.partition, each.offset

    def now(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Commit and wait for it; what was committed."""
        from confluent_kafka import KafkaException  # noqa: PLC0415

        if not offsets:
            return {}
        try:
            found = self._consumer.commit(offsets=_places(offsets), asynchronous=False)
        except KafkaException as error:
            self._note(error.args[0])
            return {}
        self._note(_first_error(found))
        return {(each.topic, each.partition): each.offset for each in found if each.error is None}

    def _note(self, error: Any) -> None:
        """Log the first failure of several, and the success behind them."""
        if error is not None and not self._is_failing:
            logger.warning(
                "What is finished was not committed: %s. It is tried again; until then it would "
                "come again after a restart.",
                error.str(),
            )
        elif error is None and self._is_failing:
            logger.warning("What is finished is committed again.")
        self._is_failing = error is not None


def commit(consumer: Any, places: list[Any]) -> None:
    """Commit places, if there are any, and wait. KafkaUnavailable if it fails."""
    deadline = time.monotonic() + REBALANCE_SECONDS_MAX
    while places and (failed := _commit_once(consumer, places)) is not None:
        if failed.code() not in _rebalancing() or time.monotonic() > deadline:
            raise _not_noted(failed)
        time.sleep(PAUSE_SECONDS)


def _commit_once(consumer: Any, places: list[Any]) -> Any:
    """Return why places were not committed, or None."""
    from confluent_kafka import KafkaException  # noqa: PLC0415

    try:
        found = consumer.commit(asynchronous=False, offsets=places)
    except KafkaException as error:
        return error.args[0]
    return _first_error(found)  # librdkafka raises only where none could be


def _rebalancing() -> frozenset[int]:
    """Kafka's answers while partitions are handed out: this reader still has its own."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    return frozenset({KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS})


def _first_error(places: list[Any]) -> Any:
    return next((each.error for each in places if each.error is not None), None)


def _not_noted(error: Any) -> KafkaUnavailable:
    from confluent_kafka import KafkaError  # noqa: PLC0415

    what = f"The place was not noted: {error.str()}."
    if error.code() in {KafkaError.UNKNOWN_MEMBER_ID, *_rebalancing()}:
        effect = "Other readers may have its partitions, and read again what was not committed."
        return KafkaUnavailable(what, effect, "Call poll() again: it joins the group again.")
    return KafkaUnavailable(
        what,
        "What was read will be read again after a restart.",
        "Look at the brokers, and at this user's right to read the consumer group.",
    )


def _places(offsets: Mapping[TopicPartition, int]) -> list[Any]:
    from confluent_kafka import TopicPartition  # noqa: PLC0415

    return [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
