"""Where the search for a cluster begins: the listed addresses, and brokers that were known before.

The addresses are asked one after another, but none is waited for: while one does not answer the
next is asked as well, and the first answer counts. kafka-python gives all the time to one of them.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable, Container
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
from streaming.wire.sockets import OTHERS_WAIT_SECONDS

ALONE_SECONDS = 10.0
"""How long known brokers wait for a listed address that is only slow, at most; and how long a
refusal by one listed address waits for the others."""

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


class _Turns:
    """Which address is asked next, and when, until ``deadline`` (s).

    One that refuses us for good is asked no more, and the others get some seconds only.
    """

    def __init__(self, listed: list[str], known: list[str], deadline: float) -> None:
        self.deadline = deadline
        self.refusal: Exception | None = None
        self._turns = deque(listed)
        self._listed, self._silent = listed, set(listed)
        self._known = known
        self._next_at = time.monotonic()
        self._known_at = self._next_at + min(ALONE_SECONDS, (deadline - self._next_at) / 2)

    def are_over(self) -> bool:
        """Whether there is no time left, or no listed address that has not refused us."""
        is_refused = self.refusal and not any(node in self._turns for node in self._listed)
        return bool(is_refused) or time.monotonic() >= self.deadline

    def note_failure(self, node: str, refusal: Exception | None) -> None:
        """Let the next one be asked at once."""
        self._next_at = time.monotonic()
        self._silent.discard(node)
        if refusal is not None:
            if self.refusal is None or isinstance(self.refusal, IncompatibleBrokerVersion):
                self.refusal = refusal  # what a broker says says more than that another is none
            self._turns.remove(node)
            self.deadline = min(self.deadline, self._next_at + ALONE_SECONDS)

    def next(
        self, asked: Container[str], delay: Callable[[str], float], *, last: bool
    ) -> tuple[str | None, float]:
        """Return the address that is asked next, if any, and the pause until then (s).

        ``delay``: an address's own pause; ``last``: whether one may begin in the last moment.
        """
        now = time.monotonic()
        if not self._silent or now >= self._known_at:
            self._turns.extend(self._known)
            self._known = []
        until = min(self.deadline, self._known_at) if self._known else self.deadline
        longest = min(LOOK_AGAIN_SECONDS, until - now)
        idle = [node for node in self._turns if node not in asked]
        if not idle or (self.deadline - now < TRY_SECONDS_MIN and not last):
            return None, longest
        node = min(idle, key=delay)
        return node, min(max(self._next_at - now, delay(node)), longest)

    def take(self, node: str) -> None:
        """Note that it is asked now."""
        now = time.monotonic()
        self._turns.remove(node)
        self._turns.append(node)
        left = (self.deadline - now) / len(self._turns)
        self._next_at = now + min(OTHERS_WAIT_SECONDS, left)


class Bootstrap(KafkaConnectionManager):  # type: ignore[misc]
    """kafka-python's connections, with a search that no silent address stops.

    Listed addresses come first, so that they decide which cluster it is. Behind them come brokers
    that this process knows from before: over the months all that are listed may have been replaced.

    ``refused``: what listed addresses said to us, while others may still let us in; ``refusal``:
    what ends all searches. ``last_error``: of a connection.
    ``known_brokers``: those that the process knew which made the settings (`known.text_of`).
    """

    def __init__(self, network: Any, **settings: Any) -> None:
        self.refusal: Exception | None = None
        self.refused: dict[str, Exception] = {}
        self.last_error: Exception | None = None
        super().__init__(network, **settings)
        servers = self.config["bootstrap_servers"]
        self.listed = servers if isinstance(servers, str) else ",".join(servers)
        known.learn(self.listed, settings.get("known_brokers", ""))
        listed = self.listed  # a listener with `self` would be a cycle
        self.cluster.add_listener(lambda cluster: known.renew(listed, _known_in(cluster)))

    async def _do_bootstrap(self, deadline: float | None) -> bool:
        """Ask the addresses for the cluster until one answers; KafkaTimeoutError if none does."""
        if self.refusal is not None:
            raise self.refusal
        self.refused.clear()
        turns = _Turns(*self._addresses(), math.inf if deadline is None else deadline)
        asked: dict[str, Any] = {}
        try:
            while not self.closed:
                for node in [node for node in asked if asked[node].is_done]:
                    future = asked.pop(node)
                    if future.succeeded():
                        self._begin(future.value)
                        return True
                    turns.note_failure(node, self._failed(node, future.exception))
                if turns.are_over():
                    break
                new, pause = turns.next(asked, self.connection_delay, last=self.last_error is None)
                if pause > 0 or new is None:
                    await self._bootstrap_wakeup(pause)
                    continue
                asked[new] = self.call_soon(self._ask_for_cluster, new, turns.deadline)
                asked[new].add_both(lambda _: self._bootstrap_wakeup.notify())
                turns.take(new)
            self.refusal = turns.refusal
            raise turns.refusal or KafkaTimeoutError(f"Unable to bootstrap from {self.listed}")
        finally:
            for connection in [self._conns[node] for node in asked if node in self._conns]:
                connection.close(self.last_error or KafkaConnectionError("Connection timed out"))

    def _addresses(self) -> tuple[list[str], list[str]]:
        """Return the names of the listed addresses, and those of known brokers besides."""
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
        return listed, names

    async def _ask_for_cluster(self, node: str, deadline: float) -> Any:
        """Return the metadata that an address answers."""
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
        return answer

    def _check(self, node: str, answer: Any) -> None:
        """Raise KafkaError if this answer does not lead to the cluster."""
        if not answer.brokers:
            raise MetadataEmptyBrokerList("its answer has no brokers")
        before = known.brokers_of(self.listed)
        if node.startswith(KNOWN) and (not before or before.cluster_id != answer.cluster_id):
            raise KafkaConnectionError("it belongs to another cluster now")

    def _failed(self, node: str, error: BaseException) -> Exception | None:
        """Note why an address does not lead to the cluster; return what a second try does not mend.

        What a known host says may be said by another service that has its address now.
        """
        if not isinstance(error, Exception):
            raise error
        if node.startswith(KNOWN):
            return None
        if isinstance(error, KafkaError):
            self.last_error = error
        of_version = error if isinstance(error, IncompatibleBrokerVersion) else None
        return self.refused.pop(node, of_version)

    def _begin(self, answer: Any) -> None:
        """Take over a cluster that was found, and keep its metadata up to date."""
        self.cluster.update_metadata(answer)
        known.keep(self.listed, _known_in(self.cluster))  # perhaps of another one than before
        self.cluster.start_refresh_loop()
