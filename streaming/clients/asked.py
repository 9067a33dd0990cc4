"""Listening to what a pipeline asks for: a thread that reads `<pipeline>.wanted` from now on."""

from __future__ import annotations

import atexit
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from streaming.arrow.key_text import key_from_json
from streaming.clients.connecting import connected
from streaming.errors import KafkaRefused, SequencerError

LOOK_SECONDS = 1.0
"""The pause between two looks for a topic that does not exist yet."""
RELOOK_SECONDS = 60.0
"""The pause between two looks for new partitions of a topic."""
POLL_SECONDS = 0.2
STOP_SECONDS_MAX = 10.0

LOGGER = logging.getLogger("streaming.clients")

Answer = Callable[[bytes, int, Any, Any], None]
"""Takes a channel, an epoch, and the labels from and to which a run is asked for."""


class Listener:
    """Reads the topic ``topic`` and gives each request to ``answer``; ends with :meth:`close`.

    Requests from before it began to listen are not read: they are repeated if they still matter. A
    topic that does not exist yet is waited for; a broker that is away, too. ``failure`` is why it
    cannot listen, where waiting does not help.

    ``answer`` is called by the listener's own thread, which has the consumer to itself.
    """

    def __init__(self, kafka: Mapping[str, Any], topic: str, answer: Answer) -> None:
        from confluent_kafka import Consumer  # noqa: PLC0415  (a cheap import of this package)

        own = {"enable.auto.commit": False, "isolation.level": "read_committed"}
        given = {"group.id": f"{topic}.listeners", **kafka, **own}
        self._consumer = connected(Consumer, given)
        self._topic = topic
        self._answer = answer
        self._ended = threading.Event()
        self._partitions = -1
        self.failure: SequencerError | None = None
        self._thread = threading.Thread(target=self._run, name=f"{topic} listener", daemon=True)
        self._thread.start()
        atexit.register(self.close)  # a thread that is in librdkafka when Python ends stops it

    def close(self) -> None:
        """Stop listening."""
        atexit.unregister(self.close)
        self._ended.set()
        self._thread.join(STOP_SECONDS_MAX)

    def take_failure(self) -> None:
        """Raise why it cannot listen, once for each time that it turns out."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure

    def _run(self) -> None:
        from confluent_kafka import KafkaException  # noqa: PLC0415

        look_at = 0.0
        try:
            while not self._ended.is_set():
                try:
                    if time.monotonic() >= look_at:
                        self._look()
                        waits = RELOOK_SECONDS if self._partitions > 0 else LOOK_SECONDS
                        look_at = time.monotonic() + waits
                    self._take()
                except KafkaException as error:  # a broker that is away; librdkafka goes on
                    LOGGER.debug("%s: %s", self._topic, error.args[0].str())
                    self._ended.wait(LOOK_SECONDS)
        finally:
            self._consumer.close()

    def _look(self) -> None:
        """Find the topic's partitions; read new ones from their beginning, the first from now."""
        from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition  # noqa: PLC0415

        found = self._consumer.list_topics(self._topic, timeout=STOP_SECONDS_MAX / 2)
        topic = found.topics[self._topic]
        if topic.error is not None:
            if topic.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                self._refuse(topic.error.str())
            elif self._partitions < 0:
                LOGGER.warning("%s: not there yet; nothing can be asked for", self._topic)
                self._partitions = 0
            return
        count, known = len(topic.partitions), self._partitions
        if count > max(known, 0):
            more = [TopicPartition(self._topic, n) for n in range(max(known, 0), count)]
            for each in more:  # a topic that was not there is read whole
                _, end = self._consumer.get_watermark_offsets(each, STOP_SECONDS_MAX / 2)
                each.offset = end if known < 0 else OFFSET_BEGINNING
            self._consumer.incremental_assign(more)
            self._partitions = count

    def _take(self) -> None:
        from confluent_kafka import KafkaError  # noqa: PLC0415

        if self._partitions <= 0:
            self._ended.wait(POLL_SECONDS)
            return
        for message in self._consumer.consume(500, timeout=POLL_SECONDS):
            error = message.error()
            if error is None:
                self._give(message.value())
            elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                self._refuse(error.str())

    def _give(self, value: bytes | None) -> None:
        """Give a request on; what cannot be answered now comes again."""
        try:
            said = json.loads(value or b"")
            channel, epoch = key_from_json(said["channel"]), int(said["epoch"])
            self._answer(channel, epoch, said["from"], said["to"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            LOGGER.warning("%s: a record that asks for nothing", self._topic)
        except SequencerError as error:
            LOGGER.warning("%s: %s", self._topic, error)

    def _refuse(self, why: str) -> None:
        self.failure = KafkaRefused(
            f"What is asked for on {self._topic} cannot be read: {why}.",
            "Nothing of this call was sent; what was sent before stands. Missing messages are not "
            "sent again.",
            f"Give this user the right to read {self._topic}, or leave keep out; then call again.",
        )
        self._ended.wait(LOOK_SECONDS)
