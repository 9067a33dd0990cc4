"""Who writes: the service its own batches, or librdkafka.

The rule: every property given must be one of OWN. Any other (GSSAPI, OAUTHBEARER, a PKCS#12 store,
`linger.ms` and whatever else tunes librdkafka's queue) leaves writing to librdkafka, which knows
them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaming.arrow.compression import WRITTEN
from streaming.config.properties import JAVA
from streaming.kafka import connection, credentials

if TYPE_CHECKING:
    from streaming.kafka.brokers import Brokers

TRANSACTION_TIMEOUT_MS = 60_000
COMPRESSION = ("compression.type", "compression.codec")
NUMBERS = {
    "connections.max.idle.ms": "connections_max_idle_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "request.timeout.ms": "request_timeout_ms",
    "socket.connection.setup.timeout.ms": "socket_connection_setup_timeout_ms",
}
OWN = {
    "bootstrap.servers",
    "client.id",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "transaction.timeout.ms",
    *COMPRESSION,
    *NUMBERS,
}


@dataclass(frozen=True, slots=True, eq=False)
class ProducerSettings:
    """What the service's own producer goes by; ``connection`` are kafka-python's words.

    The same properties give the same object.
    """

    connection: dict[str, Any]
    compression: str
    transaction_timeout_ms: int


_clusters: dict[ProducerSettings, Brokers] = {}


def brokers_of(settings: ProducerSettings) -> Brokers:
    """Connections of this process; all who go by the same properties share them."""
    if settings not in _clusters:
        from streaming.kafka.brokers import Brokers  # noqa: PLC0415  (a tenth of a second)

        _clusters[settings] = Brokers(settings.connection)
    return _clusters[settings]


def own_settings(properties: Mapping[str, Any]) -> ProducerSettings | None:
    """Of librdkafka's properties; None where librdkafka has to write."""
    return _own_settings(tuple(sorted(properties.items())))


@cache
def _own_settings(items: tuple[tuple[str, Any], ...]) -> ProducerSettings | None:
    properties = dict(items)
    compression = compression_of(properties)
    if not OWN.issuperset(properties) or compression not in WRITTEN:
        return None
    if properties.get("sasl.mechanisms", "PLAIN") not in credentials.WITH_PASSWORD:
        return None
    if "ssl.ca.location" in properties and Path(str(properties["ssl.ca.location"])).is_dir():
        return None
    numbers = {to: int(properties[name]) for name, to in NUMBERS.items() if name in properties}
    return ProducerSettings(
        {**connection.kafka_python_from(properties), **numbers},
        compression,
        int(properties.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)),
    )


def reads_itself(given: Mapping[str, str], properties: Mapping[str, Any]) -> bool:
    """Whether the service reads its inputs itself; ``given`` by the user, ``properties`` of that.

    What tunes Java's consumer leaves reading to Spark's own source.
    """
    tuned = {name for name in given if name in JAVA and not name.startswith(("sasl.", "ssl."))}
    return OWN.issuperset(tuned) and own_settings(properties) is not None


def compression_of(properties: Mapping[str, Any]) -> str:
    """How batches are compressed: lz4 unless the properties say something else."""
    return next((str(properties[name]) for name in COMPRESSION if name in properties), "lz4")
