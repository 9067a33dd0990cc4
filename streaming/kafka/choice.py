"""What our own connections and producers go by, from `[kafka] properties`; connections shared."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from streaming.kafka import client_settings, tls

if TYPE_CHECKING:
    from streaming.wire.brokers import Brokers

TRANSACTION_TIMEOUT_MS = 60_000
CONNECT_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True, eq=False)
class ProducerSettings:
    """What the service's own producer goes by; ``connection`` are for `streaming.wire.brokers`.

    The same properties give the same object.
    """

    connection: dict[str, Any]
    compression: str
    transaction_timeout_ms: int


_clusters: dict[tuple[ProducerSettings, str], Brokers] = {}


def brokers_of(settings: ProducerSettings, user: str = "") -> Brokers:
    """Return connections of this process; who go by the same properties share them.

    Only one thread may use them at a time: in a process where several do, each names its ``user``.
    """
    if (settings, user) not in _clusters:
        from streaming.wire.brokers import Brokers  # noqa: PLC0415  (a tenth of a second)

        _clusters[settings, user] = Brokers(settings.connection)
    return _clusters[settings, user]


@contextlib.contextmanager
def opened(words: Mapping[str, Any], seconds: float = CONNECT_SECONDS_MAX) -> Iterator[Brokers]:
    """Open connections of the caller's own; KafkaError where no broker answers in time."""
    from streaming.wire.brokers import Brokers  # noqa: PLC0415  (a tenth of a second)

    brokers = Brokers(own_settings(words).connection)
    try:
        brokers.connect(seconds)
        yield brokers
    finally:
        brokers.close()


def own_settings(words: Mapping[str, Any]) -> ProducerSettings:
    """Return what `client_settings.words` describe; ConfigError where they cannot work."""
    return _own_settings(tuple(sorted(words.items())))


@cache
def _own_settings(items: tuple[tuple[str, Any], ...]) -> ProducerSettings:
    words = dict(items)
    own = client_settings.kafka_python_from(words)
    if "ssl_context" in own:
        own["new_ssl_context"] = partial(tls.context, words)
    return ProducerSettings(
        own,
        words.get("compression.type", "lz4"),
        int(words.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)),
    )
