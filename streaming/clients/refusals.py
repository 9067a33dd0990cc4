"""What Kafka refuses for good, and whether it refuses a message itself.

Kafka refuses a record batch as a whole, and librdkafka gives its error to each message of it, also
to those that Kafka would take without the others. So a copy of such a message goes out in a record
batch of its own; what is refused then never comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streaming.clients.keeping import Sent
from streaming.clients.sending import Sender

ANSWER_SECONDS_MAX = 10


def is_refusal(error: Any) -> bool:
    """Whether Kafka never will take a record batch with this content."""
    from confluent_kafka import KafkaError  # noqa: PLC0415  (a cheap import of this package)

    names = ("MSG_SIZE_TOO_LARGE", "INVALID_RECORD", "INVALID_TIMESTAMP", "POLICY_VIOLATION")
    return error is not None and error.code() in {getattr(KafkaError, name) for name in names}


class Alone(Sender):
    """Sends messages one by one, each in a record batch of its own."""

    def __init__(self, kafka: dict[str, Any], topic: str) -> None:
        super().__init__({**kafka, "batch.num.messages": 1}, topic)

    def send(self, sent: Sent, note: Callable[[Any, Any], None]) -> None:
        """Send a copy, and wait for Kafka's answer, which ``note`` gets; KafkaUnavailable."""
        self._produce(sent.channel, sent.value, sent.headers, sent.timestamp, on_delivery=note)
        self.flush(ANSWER_SECONDS_MAX)
