"""Deliveries that cannot be handled, written to a topic as the service writes its rejects."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

from streaming.clients.connecting import connected, is_fatal
from streaming.errors import ConfigError, KafkaUnavailable, SequencerError
from streaming.kafka.record_sizes import OF_ANY_SIZE

SECONDS_MAX = 60
POLL_SECONDS = 0.005
DETAIL_BYTES_MAX = 1_000
REASON_BYTES_MAX = 200
CONSUMERS_OWN = ("on_commit", "group.id", "partition.assignment.strategy")
"""Of a consumer's properties, those that no producer has."""


class Rejects:
    """Writes rejects: the record as it was read, and behind its headers those of a reject.

    Each is acknowledged before :meth:`write` returns. Threads may write at the same time.
    """

    def __init__(self, kafka: dict[str, Any], topic: str, prefix: str) -> None:
        settings = {
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "delivery.timeout.ms": SECONDS_MAX * 1000,
            "batch.num.messages": 1,  # a record batch is refused as a whole
        }
        own = {name: value for name, value in kafka.items() if name not in CONSUMERS_OWN}
        self.topic = topic
        self._prefix = prefix
        self._settings = {**OF_ANY_SIZE, **own, **settings}
        self._producer = self._connected()

    def write(self, message: Any, reason: str, detail: str) -> None:
        """Write confluent-kafka's message as a reject.

        One that the topic refuses as too large is written without its value, as its detail says.
        Raises SequencerError for a reason that is none, KafkaUnavailable where Kafka did not take
        it within a minute: it may be there all the same, if only the answer was lost.
        """
        from confluent_kafka import KafkaError  # noqa: PLC0415

        if not reason or len(reason.encode()) > REASON_BYTES_MAX or not reason.isprintable():
            raise SequencerError(
                f"{reason[:50]!r} is not a reason of a reject.", "It was not written.", "Name one."
            )
        value = message.value()
        error = self._produce(message, value, reason, detail)
        if error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            size = 0 if value is None else len(value)
            cut = f"without its value ({size} bytes), which the topic refuses; {detail}"
            error = self._produce(message, None, reason, cut)
        if error is not None:
            if is_fatal(error):  # this producer will write nothing more
                self._producer = self._connected()
            raise KafkaUnavailable(
                f"{self.topic} did not take a reject: {error.str()}.",
                "The delivery is not finished; it is tried again.",
                "Look at the brokers, at the topic, and at this user's right to write to it.",
            )

    def _connected(self) -> Any:
        from confluent_kafka import Producer  # noqa: PLC0415  (a cheap import of this package)

        return connected(Producer, self._settings)

    def _produce(self, message: Any, value: bytes | None, reason: str, detail: str) -> Any:
        """Write one and wait for it; Kafka's error, or None."""
        from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

        added = {
            "reject-reason": reason.encode(),
            "reject-topic": message.topic().encode(),
            "reject-partition": b"%d" % message.partition(),
            "reject-offset": b"%d" % message.offset(),
        }
        if detail:
            added["reject-detail"] = detail.encode()[:DETAIL_BYTES_MAX]
        headers = list(message.headers() or ())
        headers += [(self._prefix + name, text) for name, text in added.items()]
        kind, timestamp_ms = message.timestamp()
        outcome: list[Any] = []
        done = Event()

        def note(error: Any, _message: Any) -> None:
            outcome.append(error)
            done.set()

        try:
            self._producer.produce(
                self.topic,
                value,
                message.key(),
                headers=headers,
                on_delivery=note,
                **({"timestamp": timestamp_ms} if kind else {}),
            )
        except KafkaException as error:
            return error.args[0]
        except BufferError:
            return KafkaError(KafkaError._QUEUE_FULL)  # noqa: SLF001  (its name)
        deadline = time.monotonic() + 2 * SECONDS_MAX  # its own limit comes first
        while not done.wait(POLL_SECONDS) and time.monotonic() < deadline:
            self._producer.poll(0)  # without waiting, which would keep others from the producer
        return outcome[0] if outcome else KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001


def required(rejects: Rejects | None) -> Rejects:
    """Return the writer of rejects; ConfigError where no topic was named."""
    if rejects is None:
        raise ConfigError(
            "This reader has no topic for rejects.",
            "Nothing was written; the delivery is not finished.",
            'Give parallel(…, rejects="TOPIC").',
        )
    return rejects
