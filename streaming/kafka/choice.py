"""Settings of our own connections and producers, from `[kafka] properties`; shared connections."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from streaming.kafka import client_settings, tls

if TYPE_CHECKING:
    from streaming.wire.brokers import Brokers

TRANSACTION_TIMEOUT_MS = 60_000
CONNECT_SECONDS_MAX = 60.0
SETTINGS_MAX = 64
CLUSTERS_MAX = 4
"""Of each user the connections by the last settings stay; older ones had passwords of before, which
were renewed in their files."""


@dataclass(frozen=True, slots=True, eq=False)
class ProducerSettings:
    """Settings of the service's own producer; ``connection`` are for `streaming.wire.brokers`.

    The same properties give the same object.
    """

    connection: dict[str, Any]
    compression: str
    transaction_timeout_ms: int


_clusters: dict[tuple[ProducerSettings, str], Brokers] = {}


def brokers_of(settings: ProducerSettings, user: str = "") -> Brokers:
    """Return connections of this process; callers with the same properties share them.

    Only one thread may use them at a time: if several threads do, each gives its own ``user``. Of a
    user's those with other than its last CLUSTERS_MAX settings are closed.
    """
    brokers = _clusters.pop((settings, user), None)
    if brokers is None:
        from streaming.wire.brokers import Brokers  # noqa: PLC0415  (a tenth of a second)

        brokers = Brokers(settings.connection)
    _clusters[settings, user] = brokers
    own = [each for each in [*_clusters] if each[1] == user]
    for each in own[:-CLUSTERS_MAX]:
        _clusters.pop(each).close()
    return brokers


@contextlib.contextmanager
def opened(words: Mapping[str, Any], seconds: float = CONNECT_SECONDS_MAX) -> Iterator[Brokers]:
    """Open connections of the caller's own; KafkaError if no broker answers in time."""
    from streaming.wire.brokers import Brokers  # noqa: PLC0415  (a tenth of a second)

    brokers = Brokers(own_settings(words).connection)
    try:
        brokers.connect(seconds)
        yield brokers
    finally:
        brokers.close()


def own_settings(words: Mapping[str, Any]) -> ProducerSettings:
    """Return the settings for `client_settings.words`; ConfigError if they cannot work."""
    return _own_settings(tuple(sorted(words.items())))


@lru_cache(SETTINGS_MAX)
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
