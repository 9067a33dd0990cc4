"""`[kafka]` as each client wants it: Java (Spark), librdkafka (confluent-kafka), kafka-python.

Users may write Java's names or librdkafka's; what only one of them knows goes only there.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from streaming.config import Config
from streaming.errors import ConfigError, KafkaUnavailable

JAAS = re.compile(r'(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;]+))')
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"

# librdkafka's names of what Java names otherwise; PEM files in both.
PEM = {
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.certificate.location": "ssl.keystore.certificate.chain",
    "ssl.key.location": "ssl.keystore.key",
    "ssl.key.password": "ssl.key.password",
}
ONLY_JAVA = ("sasl.jaas.config", "ssl.truststore.", "ssl.keystore.", "sasl.login.", "sasl.client.")
ONLY_LIBRDKAFKA = (
    "sasl.username",
    "sasl.password",
    "sasl.mechanisms",
    "ssl.ca.",
    "ssl.certificate.",
    "ssl.key.location",
    "ssl.key.pem",
    "enable.ssl.certificate.verification",
    "debug",
    "socket.",
    "broker.address.",
    "log.",
    "queue.buffering.",
    "message.",
    "topic.",
)
PRODUCER_ONLY = (
    "acks",
    "linger.ms",
    "batch.",
    "compression.",
    "max.request.",
    "delivery.",
    "queue.",
)
CONSUMER_ONLY = ("fetch.", "max.poll.", "max.partition.", "session.timeout.", "auto.offset")
PEM_REMEDY = (
    "Write PEM files instead: ssl.ca.location (and ssl.certificate.location, ssl.key.location); "
    "keytool -importkeystore -srckeystore STORE.jks -destkeystore STORE.p12 -deststoretype PKCS12, "
    "then openssl pkcs12 -in STORE.p12 -nodes."
)


def java(config: Config) -> dict[str, str]:
    """Properties for a Java client, `bootstrap.servers` included."""
    given = _given(config)
    out = {name: text for name, text in given.items() if not name.startswith(ONLY_LIBRDKAFKA)}
    out = {name: text for name, text in out.items() if not name.startswith(PRODUCER_ONLY)}
    mechanism = _mechanism(given)
    if mechanism:
        out["sasl.mechanism"] = mechanism
    if "sasl.username" in given and "sasl.jaas.config" not in given:
        module = SCRAM if (mechanism or "").startswith("SCRAM") else PLAIN
        user, password = _quoted(given["sasl.username"]), _quoted(given.get("sasl.password", ""))
        out["sasl.jaas.config"] = f"{module} required username={user} password={password};"
    if "ssl.ca.location" in given:
        out["ssl.truststore.type"] = "PEM"
        out["ssl.truststore.location"] = given["ssl.ca.location"]
    if "ssl.certificate.location" in given:
        out["ssl.keystore.type"] = "PEM"
        out["ssl.keystore.certificate.chain"] = _read(given, "ssl.certificate.location")
        out["ssl.keystore.key"] = _read(given, "ssl.key.location")
    if given.get("ssl.endpoint.identification.algorithm") == "none":
        out["ssl.endpoint.identification.algorithm"] = ""
    return {"bootstrap.servers": config.kafka.bootstrap_servers, **out}


def confluent(config: Config) -> dict[str, Any]:
    """Properties for librdkafka, `bootstrap.servers` included."""
    given = _given(config)
    out = {name: text for name, text in given.items() if not name.startswith(ONLY_JAVA)}
    out = {name: text for name, text in out.items() if not name.startswith(CONSUMER_ONLY)}
    out.pop("sasl.mechanism", None)
    mechanism = _mechanism(given)
    if mechanism:
        out["sasl.mechanisms"] = mechanism
    user, password = _login(given)
    if user is not None:
        out["sasl.username"], out["sasl.password"] = user, password or ""
    if "ssl.truststore.location" in given and "ssl.ca.location" not in given:
        if given.get("ssl.truststore.type", "JKS").upper() != "PEM":
            raise ConfigError(
                "kafka.properties.ssl.truststore.location is a Java key store, which the clients "
                "that write cannot read.",
                "Nothing was started.",
                PEM_REMEDY,
            )
        out["ssl.ca.location"] = given["ssl.truststore.location"]
    if "ssl.keystore.location" in given and "ssl.certificate.location" not in given:
        if given.get("ssl.keystore.type", "JKS").upper() != "PEM":
            raise ConfigError(
                "kafka.properties.ssl.keystore.location is a Java key store, which the clients "
                "that write cannot read.",
                "Nothing was started.",
                PEM_REMEDY,
            )
        out["ssl.certificate.location"] = out["ssl.key.location"] = given["ssl.keystore.location"]
    if given.get("ssl.endpoint.identification.algorithm") == "":
        out["ssl.endpoint.identification.algorithm"] = "none"
    return {"bootstrap.servers": config.kafka.bootstrap_servers, **out}


def connection(settings: dict[str, Any]) -> dict[str, Any]:
    """Of librdkafka's properties those that every client takes, consumers too."""
    return {name: value for name, value in settings.items() if not name.startswith(PRODUCER_ONLY)}


def kafka_python(config: Config) -> dict[str, Any]:
    """Keyword arguments for kafka-python's clients."""
    settings = confluent(config)
    names = {
        "security.protocol": "security_protocol",
        "sasl.mechanisms": "sasl_mechanism",
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
        "ssl.ca.location": "ssl_cafile",
        "ssl.certificate.location": "ssl_certfile",
        "ssl.key.location": "ssl_keyfile",
        "ssl.key.password": "ssl_password",
        "client.id": "client_id",
    }
    out: dict[str, Any] = {to: settings[name] for name, to in names.items() if name in settings}
    if "security_protocol" in out:
        out["security_protocol"] = out["security_protocol"].upper()
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        out["ssl_check_hostname"] = False
    out["bootstrap_servers"] = config.kafka.bootstrap_servers.split(",")
    return out


def wait_for_kafka(config: Config, limit_s: float) -> None:
    """Return when Kafka answers; KafkaUnavailable where it does not within the limit (s)."""
    from confluent_kafka import KafkaException  # noqa: PLC0415  (a quick --help)
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    deadline = time.monotonic() + limit_s
    settings = connection(confluent(config))
    try:
        admin = AdminClient(settings, logger=quiet())
        while True:
            try:
                admin.list_topics(timeout=max(0.5, deadline - time.monotonic()))
            except KafkaException as error:
                if time.monotonic() >= deadline:
                    raise KafkaUnavailable(
                        f"Kafka at {config.kafka.bootstrap_servers} does not answer "
                        f"({error.args[0].str()}).",
                        "Nothing was changed.",
                        "Check kafka.bootstrap_servers, the network and the security settings.",
                    ) from error
            else:
                return
    except KafkaException as error:  # the properties themselves
        raise ConfigError(
            f"kafka.properties are refused: {error.args[0].str()}.", "Nothing was started."
        ) from error


def quiet() -> Any:
    """A logger for librdkafka's own lines, which say every second that a broker is away."""
    import logging  # noqa: PLC0415

    logger = logging.getLogger("streaming.librdkafka")
    logger.setLevel(logging.CRITICAL)
    return logger


def _given(config: Config) -> dict[str, str]:
    out: dict[str, str] = {}
    for name, value in config.kafka.properties.items():
        out[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return out


def _mechanism(given: dict[str, str]) -> str | None:
    return given.get("sasl.mechanism") or given.get("sasl.mechanisms")


def _login(given: dict[str, str]) -> tuple[str | None, str | None]:
    if "sasl.username" in given:
        return given["sasl.username"], given.get("sasl.password")
    found = {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        for name, quoted, plain in JAAS.findall(given.get("sasl.jaas.config", ""))
    }
    return found.get("username"), found.get("password")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _read(given: dict[str, str], name: str) -> str:
    path = given.get(name, "")
    try:
        return Path(path).read_text()
    except OSError as error:
        raise ConfigError(
            f"kafka.properties.{name}: {path} cannot be read: {error.strerror}.",
            "Nothing was started.",
        ) from error
