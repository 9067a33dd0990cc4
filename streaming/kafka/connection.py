"""`[kafka]` as each client wants it: Java (Spark), librdkafka (confluent-kafka), kafka-python.

Users may write Java's names or librdkafka's; what only one of them knows goes only there. What none
is known to know goes to both: librdkafka refuses what it does not know either.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import time
from collections.abc import Mapping
from typing import Any

from streaming.config import Config
from streaming.config.properties import JAVA, KNOWN, LIBRDKAFKA, LIBRDKAFKA_PRODUCER, OWNED
from streaming.errors import ConfigError, KafkaUnavailable
from streaming.kafka import credentials

ASK_SECONDS_MAX = 3.0
FLUSH_TURN_SECONDS = 0.1
LISTENING_SECONDS_MAX = 2.0
IDENTIFICATION = "ssl.endpoint.identification.algorithm"


def java(config: Config) -> dict[str, str]:
    """Properties for a Java consumer or admin client, `bootstrap.servers` included.

    Spark's source takes them with `kafka.` before each name. ConfigError where they cannot be told
    to Java.
    """
    properties = config.kafka.properties
    out = {name: text for name, text in properties.items() if name in JAVA or _is_unknown(name)}
    if "security.protocol" in out:
        out["security.protocol"] = out["security.protocol"].upper()
    if out.get(IDENTIFICATION) == "none":
        out[IDENTIFICATION] = ""
    out |= credentials.java(properties)
    return {"bootstrap.servers": config.kafka.bootstrap_servers, **out}


def confluent(config: Config, **extra: Any) -> dict[str, Any]:
    """Properties for a librdkafka producer, `bootstrap.servers` included, and those in ``extra``.

    ConfigError where they cannot be told to librdkafka. For consumers and admin clients see
    :func:`connection`.
    """
    properties = config.kafka.properties
    known = LIBRDKAFKA | LIBRDKAFKA_PRODUCER
    out: dict[str, Any] = {
        name: text for name, text in properties.items() if name in known or _is_unknown(name)
    }
    out.pop("sasl.mechanism", None)
    if out.get(IDENTIFICATION) == "":
        out[IDENTIFICATION] = "none"
    out |= credentials.librdkafka(properties)
    credentials.drop_foreign_store(out, properties)
    return {"bootstrap.servers": config.kafka.bootstrap_servers, **out, **extra}


def without_producer_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Of librdkafka's properties those that every client takes, consumers too."""
    return {name: value for name, value in settings.items() if name not in LIBRDKAFKA_PRODUCER}


def kafka_python(config: Config) -> dict[str, Any]:
    """Keyword arguments for kafka-python's clients; ConfigError where they cannot be told to it."""
    return kafka_python_from(confluent(config))


def kafka_python_from(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The same from librdkafka's properties."""
    out = credentials.kafka_python(settings)
    names = {"client.id": "client_id", "security.protocol": "security_protocol"}
    out |= {to: settings[name] for name, to in names.items() if name in settings}
    if "security_protocol" in out:
        out["security_protocol"] = out["security_protocol"].upper()
    out["bootstrap_servers"] = settings["bootstrap.servers"].split(",")
    return out


def validate(config: Config) -> None:
    """ConfigError where one of the clients refuses the properties; connects to nobody."""
    from confluent_kafka import KafkaException, Producer  # noqa: PLC0415  (a quick --help)

    java(config)
    # An address that nobody has, so that no connection is begun: names and values are the matter.
    settings = confluent(config, **{"enable.idempotence": True, "bootstrap.servers": ""})
    try:
        Producer(settings, logger=quiet())
    except KafkaException as error:
        raise _refused(config, error) from error


def admin(config: Config, **extra: Any) -> Any:
    """An admin client; ConfigError where librdkafka refuses the properties.

    Hold it while it works: its end cancels what it was asked.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    try:
        return AdminClient(without_producer_settings(confluent(config, **extra)), logger=quiet())
    except KafkaException as error:
        raise _refused(config, error) from error


def reader(config: Config, name: str, **extra: Any) -> Any:
    """A consumer for who assigns partitions, joins no group and commits nothing; read_committed.

    ``name`` tells it from others where it asks. Ask :func:`is_record` of what it polls, and close
    it. ConfigError where librdkafka refuses the properties.
    """
    from confluent_kafka import Consumer, KafkaException  # noqa: PLC0415

    settings = {
        "group.id": f"sequencer-{name}",  # never joined
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        **extra,
    }
    try:
        return Consumer(without_producer_settings(confluent(config, **settings)), logger=quiet())
    except KafkaException as error:
        raise _refused(config, error) from error


def _refused(config: Config, error: Any) -> ConfigError:
    return ConfigError(
        config.hide(f"kafka.properties are refused: {error.args[0].str()}."),
        "Nothing was started.",
        "Correct them; names and values are those of Kafka's Java client or of librdkafka.",
    )


def wait_for_kafka(config: Config, limit_s: float) -> Any:
    """Return Kafka's metadata as soon as it answers.

    KafkaUnavailable where it does not within the limit (s), or sooner where one side refuses the
    other's name, password or certificate, with what the connection met; ConfigError where the
    properties cannot work.
    """
    from confluent_kafka import KafkaException  # noqa: PLC0415  (a quick --help)

    validate(config)
    deadline = time.monotonic() + limit_s
    met: dict[str, str] = {}
    client = admin(config, error_cb=lambda error: met.update({error.name(): error.str()}))
    while True:
        try:
            left_s = deadline - time.monotonic()
            return client.list_topics(timeout=min(ASK_SECONDS_MAX, max(0.5, left_s)))
        except KafkaException as error:
            client.poll(0)  # calls error_cb
            if time.monotonic() < deadline and not _is_refused(met):
                continue
            why = config.hide(_most_telling(met) or error.args[0].str())
            raise KafkaUnavailable(
                f"Kafka at {config.kafka.bootstrap_servers} does not answer ({why}).",
                "Nothing was changed.",
                "Check kafka.bootstrap_servers, the network and the security settings.",
            ) from error


def is_listening(config: Config) -> bool:
    """Whether a bootstrap server takes connections; knows at once where nobody does."""
    for address in config.kafka.bootstrap_servers.split(","):
        host, _, port = address.strip().rpartition("://")[2].rpartition(":")
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection((host.strip("[]"), int(port)), LISTENING_SECONDS_MAX).close()
            return True
    return False


def _is_refused(met: dict[str, str]) -> bool:
    """Whether asking again cannot help.

    What a broker says of our certificate comes after the handshake, as the end of a connection.
    """
    return "_AUTHENTICATION" in met or any("certificate" in said for said in met.values())


def _most_telling(met: dict[str, str]) -> str:
    """Of librdkafka's errors by name the one that names the cause, without address and times."""
    for name in ("_AUTHENTICATION", "_SSL", "_RESOLVE", "_TRANSPORT"):
        if name in met:
            return re.sub(r"^\S+?: |:? \(after \d+ms in state \w+.*\)$", "", met[name])
    return ""


def is_record(message: Any) -> bool:
    """Whether what a :func:`reader` polled is a record; it polls None where nothing came.

    Raises KafkaException where reading failed. That the user may not read the reader's group is no
    failure, as it needs none; librdkafka tells it all the same.
    """
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415  (a quick --help)

    error = message.error() if message is not None else None
    if error is not None and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
        raise KafkaException(error)
    return message is not None and error is None


def is_end(message: Any) -> bool:
    """Whether what a :func:`reader` polled says that a partition is at its end.

    Only one with `enable.partition.eof` hears of it.
    """
    from confluent_kafka import KafkaError  # noqa: PLC0415

    error = message.error() if message is not None else None
    return error is not None and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001


def is_fenced(error: Any) -> bool:
    """Whether another producer has taken our transactional id, by a KafkaError."""
    from confluent_kafka import KafkaError  # noqa: PLC0415

    return error.code() in (
        KafkaError._FENCED,  # noqa: SLF001  (librdkafka's own name)
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
    )


def flush(producer: Any, limit_s: float) -> int:
    """Wait until Kafka has told what became of every message; how many it has not told of.

    Raises KafkaException as soon as the producer is fenced. The producer's own `flush` goes on with
    its callbacks then, while that exception is pending already: they fail with SystemError.
    """
    deadline = time.monotonic() + limit_s
    while len(producer) and (left := deadline - time.monotonic()) > 0:
        producer.poll(min(left, FLUSH_TURN_SECONDS))
    return len(producer)


def reason(error: Exception) -> str:
    """Why Kafka did not do something, by a KafkaException, or by the TimeoutError of a future."""
    from confluent_kafka import KafkaException  # noqa: PLC0415

    known = isinstance(error, KafkaException)
    return str(error.args[0].str()) if known else "Kafka did not answer"


def quiet() -> Any:
    """A logger for librdkafka's own lines, which say every second that a broker is away.

    They are heard where the logger "streaming" is set to DEBUG (the command's --verbose).
    """
    logger = logging.getLogger("streaming.librdkafka")
    heard = logging.getLogger("streaming").isEnabledFor(logging.DEBUG)
    logger.setLevel(logging.DEBUG if heard else logging.CRITICAL)
    return logger


def _is_unknown(name: str) -> bool:
    return name not in KNOWN and name not in OWNED
