"""Whether Kafka answers, and librdkafka's clients for commands of the command line."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from streaming import logs
from streaming.config import Config
from streaming.errors import ConfigError, KafkaUnavailable
from streaming.kafka import client_settings
from streaming.kafka.interruptible import interruptible

if TYPE_CHECKING:
    from streaming.wire.admin import Cluster

FLUSH_TURN_SECONDS = 0.1
LISTENING_SECONDS_MAX = 2.0
ANSWER_SECONDS_MAX = 10
"""How long every command waits for Kafka's first answer."""
REFUSED_SECONDS_MAX = 3
"""The same if all its addresses refuse connections."""
ANNOUNCED_AFTER_SECONDS = 2


def validate(config: Config) -> None:
    """Raise ConfigError if the properties cannot work; does not connect."""
    from streaming.kafka.choice import own_settings  # noqa: PLC0415

    own_settings(client_settings.words(config))


def admin(config: Config, **extra: Any) -> Any:
    """Return an admin client; ConfigError if librdkafka refuses the properties.

    Keep a reference until its requests are done: destroying it cancels them.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    try:
        return client(AdminClient, _of_clients(config, **extra))
    except KafkaException as error:
        raise _refused(config, error) from error


def reader(config: Config, name: str, **extra: Any) -> Any:
    """Return a read_committed consumer to be assigned partitions, without a group or commits.

    ``name`` names it in errors. Check with :func:`is_record` what it polls, and close it.
    Raises ConfigError if librdkafka refuses the properties.
    """
    from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415

    settings = {
        "group.id": f"sequencer-{name}",  # never joined
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        **extra,
    }
    try:
        return client(Consumer, _of_clients(config, **settings))
    except KafkaException as error:
        raise _refused(config, error) from error


def _of_clients(config: Config, **extra: Any) -> dict[str, Any]:
    """Return the properties that every client of librdkafka accepts."""
    return client_settings.without_producer_settings(client_settings.confluent(config, **extra))


def _refused(config: Config, error: Any) -> ConfigError:
    return ConfigError(
        config.hide(f"kafka.properties are refused: {error.args[0].str()}."),
        "Nothing was started.",
        "Correct them; names and values are those of Kafka's Java client or of librdkafka.",
    )


def wait_for_kafka(
    config: Config, limit_s: float = ANSWER_SECONDS_MAX, *, announce: bool = True
) -> Cluster:
    """Wait for Kafka and return its cluster; report the wait after 2 s.

    Raises KafkaUnavailable, with the connection's error, if Kafka does not answer within the limit
    (s), or sooner if connections are refused for 3 s, or if one side refuses the other's name,
    password or certificate; ConfigError if the properties cannot work.
    """
    timer = threading.Timer(
        ANNOUNCED_AFTER_SECONDS,
        logs.say,
        [f"Waiting for Kafka at {config.kafka.bootstrap_servers} …"],
        {"event": "kafka-waited-for"},
    )
    timer.daemon = True
    if announce:
        timer.start()
    begun = time.monotonic()
    try:
        try:
            return _cluster(config, min(limit_s, REFUSED_SECONDS_MAX))
        except KafkaUnavailable:
            spent = time.monotonic() - begun
            if spent < REFUSED_SECONDS_MAX or spent >= limit_s or not is_listening(config):
                raise
            return _cluster(config, limit_s - spent)
    finally:
        timer.cancel()


def _cluster(config: Config, limit_s: float) -> Cluster:
    from kafka.errors import KafkaError  # noqa: PLC0415  (a quick --help)

    from streaming.kafka import choice  # noqa: PLC0415
    from streaming.wire import admin, connections  # noqa: PLC0415

    try:
        with choice.opened(client_settings.words(config), limit_s) as brokers:
            return admin.cluster_of(brokers, limit_s)
    except KafkaError as error:
        kafka, why = f"Kafka at {config.kafka.bootstrap_servers}", config.hide(admin.reason(error))
        what = f"{kafka} does not answer ({why})."
        remedy = "Check the address (kafka.bootstrap_servers), the network, the security settings."
        if isinstance(error, connections.REFUSALS):
            what = f"{kafka} refuses this user ({why})."
            remedy = "Check its name, password or token, and sasl.mechanism (kafka.properties)."
        elif connections.is_about_certificates(error):
            what = f"{kafka} cannot be reached by TLS ({why})."
            remedy = "Check certificates and authorities on both sides (ssl.… in kafka.properties)."
        raise KafkaUnavailable(what, "Nothing was changed.", remedy) from error


def is_listening(config: Config) -> bool:
    """Return whether a bootstrap server accepts connections; at once if none does."""
    for address in config.kafka.bootstrap_servers.split(","):
        host, _, port = address.strip().rpartition("://")[2].rpartition(":")
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection((host.strip("[]"), int(port)), LISTENING_SECONDS_MAX).close()
            return True
    return False


def is_record(message: Any) -> bool:
    """Return whether what a :func:`reader` polled is a record; it polls None if nothing arrived.

    Raises KafkaException if reading failed. librdkafka also reports that the user may not read the
    reader's group, which is ignored, as it needs none.
    """
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415  (a quick --help)

    error = message.error() if message is not None else None
    if error is not None and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
        raise KafkaException(error)
    return message is not None and error is None


def is_end(message: Any) -> bool:
    """Return whether what a :func:`reader` polled says that a partition is at its end.

    It polls that only with `enable.partition.eof`.
    """
    from confluent_kafka import KafkaError  # noqa: PLC0415

    error = message.error() if message is not None else None
    return error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001


def is_fenced(error: Any) -> bool:
    """Return whether a KafkaError says that another producer has taken our transactional id."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    return error.code() in (
        KafkaError._FENCED,  # noqa: SLF001  (librdkafka's own name)
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    )


def flush(producer: Any, limit_s: float) -> int:
    """Wait until every message was acknowledged or failed; return how many were neither.

    Raises KafkaException as soon as the producer is fenced. The producer's own `flush` goes on with
    its callbacks then, while that exception is pending already: they fail with SystemError.
    """
    deadline = time.monotonic() + limit_s
    while len(producer) and (seconds_left := deadline - time.monotonic()) > 0:
        producer.poll(min(seconds_left, FLUSH_TURN_SECONDS))
    return len(producer)


def reason(error: Exception) -> str:
    """Return Kafka's reason in a KafkaException, or for a future's TimeoutError."""
    from confluent_kafka import KafkaException  # noqa: PLC0415

    known = isinstance(error, KafkaException)
    return str(error.args[0].str()) if known else "Kafka did not answer"


def client(kind: Any, properties: dict[str, Any]) -> Any:
    """Return one of confluent-kafka's clients; KafkaException where librdkafka refuses it.

    Ctrl-C ends its calls as such. Its own lines, which repeat every second while Kafka is away, are
    shown if the logger "streaming" is set to DEBUG (the command's --verbose).
    """
    logger = logging.getLogger("streaming.librdkafka")
    is_shown = logging.getLogger("streaming").isEnabledFor(logging.DEBUG)
    # A fenced producer is fatal to librdkafka; its error reaches the caller, who reports it.
    logger.setLevel(logging.DEBUG if is_shown else logging.CRITICAL + 1)
    return interruptible(kind)(properties, logger=logger)
