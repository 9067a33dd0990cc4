"""`[kafka]` in the form of each client: our own connections (kafka-python's), and librdkafka.

The service reads and writes over its own connections; librdkafka serves commands of the command
line. Users may write Java's names or librdkafka's (`streaming.kafka.credentials`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streaming.config import Config
from streaming.config.kafka_properties import NUMBERS
from streaming.kafka import credentials, tls
from streaming.wire import known

TLS = ("SSL", "SASL_SSL")
OF_JAVA_ALONE = ("socket.connection.setup.timeout.max.ms", "ssl.enabled.protocols")
OF_PRODUCERS = ("compression.type", "request.timeout.ms", "transaction.timeout.ms")
AS_WRITTEN = NUMBERS | {
    *("client.id", "https.ca.location", "https.ca.pem"),
    *("ssl.cipher.suites", "ssl.crl.location", "ssl.enabled.protocols"),
}
IN_SMALL_LETTERS = ("client.dns.lookup", "compression.type", "enable.ssl.certificate.verification")
"""Properties with the same name in both."""
IDENTIFICATION = "ssl.endpoint.identification.algorithm"

KNOWN_BROKERS = "known.brokers"
"""A property of our own (:func:`with_known_brokers`), which no client of Kafka's has."""


def words(config: Config) -> dict[str, str]:
    """Return `bootstrap.servers` and all known properties, by librdkafka's names.

    (And two of Java's that librdkafka does not have.) Raises ConfigError if something is missing.
    """
    given = config.kafka.properties
    out = {name: text for name, text in given.items() if name in AS_WRITTEN}
    out |= {name: given[name].lower() for name in IN_SMALL_LETTERS if name in given}
    if "compression.codec" in given:
        out.setdefault("compression.type", given["compression.codec"].lower())
    if "security.protocol" in given:
        out["security.protocol"] = given["security.protocol"].upper()
    if IDENTIFICATION in given:
        out[IDENTIFICATION] = given[IDENTIFICATION].lower() or "none"
    return {
        "bootstrap.servers": config.kafka.bootstrap_servers,
        **out,
        **credentials.words(given),
    }


def with_known_brokers(given: Mapping[str, str]) -> dict[str, str]:
    """Return :func:`words` for our own connections in other processes, with brokers known here.

    A worker knows none itself when it begins, and the listed addresses may lead nowhere any more.
    """
    text = known.text_of(given["bootstrap.servers"])
    return {**given, KNOWN_BROKERS: text} if text else {**given}


def confluent(config: Config, **extra: Any) -> dict[str, Any]:
    """Return properties for a librdkafka producer, with those in ``extra``; ConfigError likewise.

    For consumers and admin clients see :func:`without_producer_settings`.
    """
    found = {name: text for name, text in words(config).items() if name not in OF_JAVA_ALONE}
    return {**found, **extra}


def without_producer_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return those of librdkafka's properties that every client accepts, consumers too."""
    return {name: value for name, value in settings.items() if name not in OF_PRODUCERS}


def kafka_python(config: Config) -> dict[str, Any]:
    """Return keyword arguments for kafka-python's clients; ConfigError likewise."""
    return kafka_python_from(words(config))


def kafka_python_from(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the same from :func:`words`."""
    out: dict[str, Any] = {
        name.replace(".", "_"): int(given[name])
        for name in NUMBERS - {"transaction.timeout.ms"}
        if name in given
    }
    names = {
        "client.dns.lookup": "client_dns_lookup",
        "client.id": "client_id",
        "security.protocol": "security_protocol",
        "sasl.mechanisms": "sasl_mechanism",
        "sasl.username": "sasl_plain_username",
        "sasl.password": "sasl_plain_password",
    }
    out |= {to: given[name] for name, to in names.items() if name in given}
    mechanism = out.get("sasl_mechanism", "")
    if mechanism.startswith("SCRAM-"):
        # RFC 5802: these two have a meaning in its messages, and kafka-python does not escape them.
        user = out["sasl_plain_username"].replace("=", "=3D").replace(",", "=2C")
        out["sasl_plain_username"] = user
    if mechanism == "OAUTHBEARER":
        from streaming.kafka import tokens  # noqa: PLC0415  (imports kafka-python)

        out["sasl_oauth_token_provider"] = tokens.provider(given)
    if mechanism == "GSSAPI":
        from streaming.wire import kerberos  # noqa: PLC0415  (imports kafka-python)

        out["sasl_kerberos_name"] = kerberos.login(given)
    if out.get("security_protocol") in TLS:
        out["ssl_context"] = tls.context(given)
    if KNOWN_BROKERS in given:
        out["known_brokers"] = given[KNOWN_BROKERS]
    out["bootstrap_servers"] = given["bootstrap.servers"].split(",")
    return out
