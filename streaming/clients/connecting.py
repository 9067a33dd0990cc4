"""Making librdkafka's clients: quiet ones, whose faults are sentences."""

from __future__ import annotations

import logging
import time
from typing import Any

from streaming.errors import ConfigError
from streaming.kafka.interruptible import interruptible

COOPERATIVE = "cooperative-sticky"

NOT_READ = (
    "No delivery is lost.",
    "Look at brokers and rights; then call poll() again, or after run() make a new reader.",
)
"""What it means that a reader could not read, and what to do."""

ENDED = (
    "This reader reads nothing more. No delivery is lost.",
    "Make a new one. If each has a group.instance.id, no two may have the same.",
)
"""What it means that librdkafka has given a consumer up, and what to do."""

LEFT = (
    "Other readers get its partitions, and what it did not commit. No delivery is lost.",
    "Call poll() again: it joins the group again. If handling takes long, raise that property.",
)
"""What it means that nobody polled for `max.poll.interval.ms`, and what to do."""


SAID_AGAIN_SECONDS = 60.0

LOGGER = logging.getLogger("streaming.clients")


class Refusals:
    """The callback for a client's errors: logs that TLS or authentication fails.

    Once a minute; librdkafka tries again all the time, and returns nothing meanwhile. What else it
    reports goes to its own logger, as it does without a callback. Called by the threads that poll.
    """

    def __init__(self) -> None:
        self._why = ""
        self._heard_s = self._said_s = -SAID_AGAIN_SECONDS

    def __call__(self, error: Any) -> None:
        """Take an error that librdkafka reports."""
        from confluent_kafka import KafkaError  # noqa: PLC0415  (a cheap import of this package)

        if error.code() not in {KafkaError._AUTHENTICATION, KafkaError._SSL}:  # noqa: SLF001  (its names)
            logging.getLogger("streaming.librdkafka").error(error.str())
            return
        self._why, self._heard_s = error.str(), time.monotonic()
        if self._heard_s - self._said_s >= SAID_AGAIN_SECONDS:
            self._said_s = self._heard_s
            LOGGER.warning(
                "TLS or authentication with Kafka fails; this client tries again: %s", self._why
            )

    def recent(self) -> str:
        """Return why TLS or authentication failed in the last minute; nothing if neither did."""
        return self._why if time.monotonic() - self._heard_s < SAID_AGAIN_SECONDS else ""


def reader_settings(kafka: dict[str, Any], group: str, *, from_beginning: bool) -> dict[str, Any]:
    """Return a consumer's properties: what the user gave, but for those that a reader rests on."""
    if not group or not isinstance(group, str):  # librdkafka would end the process
        raise ConfigError(
            f"group is {group!r}: a reader needs the name of a consumer group.",
            "Nothing was read.",
            "Pass its name, a string that is not empty.",
        )
    by_broker = kafka.get("group.protocol") == "consumer"  # without an assignor of the readers
    return {
        **({} if by_broker else {"partition.assignment.strategy": COOPERATIVE}),
        **kafka,
        "group.id": group,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": True,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest" if from_beginning else "latest",
    }


def connected(client: Any, settings: dict[str, Any], refusals: Refusals | None = None) -> Any:
    """Return a confluent-kafka client; ConfigError where librdkafka refuses the properties.

    Its own lines, which say every second that a broker is away, go to the logger
    "streaming.librdkafka", and are heard where that is set to DEBUG. ``refusals`` hears of errors,
    unless the user has an `error_cb`.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415

    logger = logging.getLogger("streaming.librdkafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)
    try:
        return interruptible(client)(
            {"error_cb": refusals or Refusals(), **settings}, logger=logger
        )
    except (KafkaException, TypeError, ValueError) as error:
        known = isinstance(error, KafkaException)
        why = error.args[0].str() if known else str(error)
        raise ConfigError(
            f"Kafka's client refuses its properties: {why}.",
            "Nothing was connected.",
            "Names and values are librdkafka's.",
        ) from error


def is_fatal(error: Any) -> bool:
    """Whether librdkafka has given a client up."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    return bool(error.fatal()) or error.code() == KafkaError._FATAL  # noqa: SLF001  (its name)
