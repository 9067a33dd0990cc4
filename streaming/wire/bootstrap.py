"""Where the search for a cluster begins: the listed addresses, and brokers that were known before.

The addresses are asked one after another, but none is waited for: while one does not answer the
next is asked as well, and the first answer counts. kafka-python gives all the time to one of them.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from typing import Any

from kafka.errors import (
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MetadataEmptyBrokerList,
)
from kafka.net.manager import KafkaConnectionManager
from kafka.protocol.metadata import MetadataResponse

from streaming.wire import known
from streaming.wire.known import KnownBrokers

OTHERS_WAIT_SECONDS = 1.0
"""How long the next address waits for an answer of the one before, at most."""

LOOK_AGAIN_SECONDS = 1.0
TRY_SECONDS_MIN = 0.1
"""With less time left no address is asked again: its timeout would hide the error that is known."""

KNOWN_MAX = 5
"""The most known brokers that are asked besides the listed addresses."""

KNOWN = "known-"
"""Begins the names of known brokers among the addresses; the listed ones have kafka-python's."""


def _known_in(cluster: Any) -> KnownBrokers:
    addresses = tuple((each.host, each.port) for each in cluster.brokers())
    return KnownBrokers(cluster.cluster_id, addresses)


class Bootstrap(KafkaConnectionManager):  # type: ignore[misc]
    """kafka-python's connections, with a search that no silent address stops.

    Listed addresses come first, so that they decide which cluster it is. Behind them come brokers
    that this process knows from before: over the months all that are listed may have been replaced.

    ``refusal``: of a listed address; it ends the search. ``last_error``: of a connection.
    ``known_brokers``: those that the process knew which made the settings (`known.text_of`).
    """

    def __init__(self, network: Any, **settings: Any) -> None:
        self.refusal: Exception | None = None
        self.last_error: Exception | None = None
        super().__init__(network, **settings)
        servers = self.config["bootstrap_servers"]
        self.listed = servers if isinstance(servers, str) else ",".join(servers)
        known.learn(self.listed, settings.get("known_brokers", ""))
        listed = self.listed  # a listener with `self` would be a cycle
        self.cluster.add_listener(lambda cluster: known.renew(listed, _known_in(cluster)))

    async def _do_bootstrap(self, deadline: float | None) -> bool:
        """Ask the addresses for the cluster until one answers; KafkaTimeoutError if none does."""
        deadline = math.inf if deadline is None else deadline
        turns = deque(self._addresses())
        asked: dict[str, Any] = {}
        next_at = time.monotonic()
        try:
            while not self.closed and (now := time.monotonic()) < deadline:
                for node in [node for node in asked if asked[node].is_done]:
                    future, next_at = asked.pop(node), now
                    if future.succeeded():
                        self._begin(*future.value)
                        return True
                    self._failed(node, future.exception)
                idle = [node for node in turns if node not in asked]
                pause = LOOK_AGAIN_SECONDS
                is_over = deadline - now < TRY_SECONDS_MIN and self.last_error is not None
                if idle and not is_over:
                    node = min(idle, key=self.connection_delay)
                    pause = max(next_at - now, self.connection_delay(node))
                if pause > 0:
                    await self._bootstrap_wakeup(min(pause, LOOK_AGAIN_SECONDS, deadline - now))
                    continue
                asked[node] = self.call_soon(self._ask_for_cluster, node, deadline)
                asked[node].add_both(lambda _: self._bootstrap_wakeup.notify())
                turns.remove(node)
                turns.append(node)
                next_at = now + min(OTHERS_WAIT_SECONDS, (deadline - now) / len(turns))
            raise KafkaTimeoutError(f"Unable to bootstrap from {self.listed}")
        finally:
            for connection in [self._conns[node] for node in asked if node in self._conns]:
                connection.close(self.last_error or KafkaConnectionError("Connection timed out"))

    def _addresses(self) -> list[str]:
        """Return the names of the listed addresses, and behind them those of known brokers."""
        addresses = self.cluster._bootstrap_brokers  # noqa: SLF001
        listed = [name for name in addresses if not name.startswith(KNOWN)]
        there = {(addresses[name].host, addresses[name].port) for name in listed}
        before = known.brokers_of(self.listed)
        others = [each for each in before.addresses if each not in there] if before else []
        names = []
        for number, (host, port) in enumerate(random.sample(others, min(len(others), KNOWN_MAX))):
            names.append(f"{KNOWN}{number}")
            addresses[names[-1]] = MetadataResponse.MetadataResponseBroker(
                names[-1], host, port, None
            )
        return [*listed, *names]

    async def _ask_for_cluster(self, node: str, deadline: float) -> tuple[Any, Any]:
        """Return the metadata that an address answers, and its broker's versions of requests."""
        connection = None
        try:
            left_ms = (deadline - time.monotonic()) * 1000
            connection = self.get_connection(
                node,
                timeout_ms=min(self.socket_connection_setup_timeout_ms(node), left_ms),
                refresh_metadata_on_err=False,
                reset_backoff_on_connect=False,
            )
            await connection
            answer = await connection.send_request(
                self.cluster.metadata_request(),
                request_timeout_ms=min(self.config["request_timeout_ms"], left_ms),
            )
            self._check(node, answer)
        except BaseException:
            if not self.connection_delay(node):
                self.update_backoff(node)
            raise
        finally:
            if connection is not None:
                connection.close()
        self.reset_backoff(node)
        return answer, connection.broker_version_data

    def _check(self, node: str, answer: Any) -> None:
        """Raise KafkaError if this answer does not lead to the cluster."""
        if not answer.brokers:
            raise MetadataEmptyBrokerList("its answer has no brokers")
        before = known.brokers_of(self.listed)
        if node.startswith(KNOWN) and (not before or before.cluster_id != answer.cluster_id):
            self.broker_version_data = None  # kafka-python noted those of the wrong cluster
            raise KafkaConnectionError("it belongs to another cluster now")

    def _failed(self, node: str, error: BaseException) -> None:
        """Note why an address does not lead to the cluster; raise what no other one mends.

        What a known host says may be said by another service that has its address now.
        """
        if not isinstance(error, Exception):
            raise error
        if self.refusal is not None:
            raise self.refusal
        if node.startswith(KNOWN):
            return
        if isinstance(error, IncompatibleBrokerVersion):
            raise error
        if isinstance(error, KafkaError):
            self.last_error = error

    def _begin(self, answer: Any, versions: Any) -> None:
        """Take over a cluster that was found, and keep its metadata up to date."""
        self.broker_version_data = versions
        self.cluster.update_metadata(answer)
        known.keep(self.listed, _known_in(self.cluster))  # perhaps of another one than before
        self.cluster.start_refresh_loop()
