"""Proxies between clients and Kafka's brokers that see requests and answers one by one.

    with Proxies(broker.bootstrap) as proxies:
        late = proxies.hold("EndTxn", 1)    # the next request to end a transaction stays here
        ...                                 # a client that bootstraps from proxies.bootstrap
        late.wait()                         # until it is here
        proxies.cut()                       # clients lose their connections, and ask over new ones
        late.release()                      # the broker gets the old request now

Brokers need no setting for it: addresses that they give to clients are replaced by those of proxies,
one for each broker. Clients must not use TLS. What a rule holds back holds back all that is behind it
on the same connection in the same direction, as a slow network would.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any, Self

from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import (
    ApiVersionsResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)

from tests.proxied import ANSWER, HOST, REQUEST, Address, Connection, Message, Proxy, Rule

REWRITTEN = {each.API_KEY: each for each in (MetadataResponse, FindCoordinatorResponse)}
COORDINATORS_VERSION = 4
"""From which on FindCoordinator asks for several."""


class Proxies:
    """One proxy for each broker of a cluster; a context manager. Rules hold for all of them."""

    def __init__(self, bootstrap: str) -> None:
        self.lock = threading.Lock()
        self.rules: list[Rule] = []
        self.faults: list[Exception] = []
        self._proxies: dict[Address, Proxy] = {}
        addresses = [each.rpartition(":") for each in bootstrap.split(",")]
        self._first = [self._at(host, int(port)) for host, _, port in addresses]

    @property
    def bootstrap(self) -> str:
        """Addresses for clients."""
        return ",".join(f"{HOST}:{each.address[1]}" for each in self._first)

    def hold(self, api: str | None = None, limit: int = 0, **where: Any) -> Rule:
        """Keep requests, or answers, until the rule is released; ``where``: as for `add`."""
        return self.add(hold, api, limit, **where)

    def lose(self, api: str | None = None, limit: int = 0, **where: Any) -> Rule:
        """Cut the connection where a request, or an answer, would pass: it gets lost."""
        return self.add(lose, api, limit, **where)

    def delay(self, seconds: float, api: str | None = None, **where: Any) -> Rule:
        """Pass each only after so long."""

        def act(rule: Rule, _connection: Connection, _message: Message) -> bool:
            rule.released.wait(seconds)
            return True

        return self.add(act, api, **where)

    def watch(self, api: str | None = None, *, answers: bool = False) -> Rule:
        """Only note what passes."""
        return self.add(lambda *_: True, api, answers=answers)

    def cut(self, node: int | None = None) -> None:
        """End the connections to a broker, or to all, for their clients."""
        for each in self._of(node):
            each.cut()

    @contextmanager
    def away(self, node: int | None = None) -> Iterator[None]:
        """Nobody reaches a broker, or any, inside."""
        gone = self._of(node)
        for each in gone:
            each.away = True
            each.cut()
        try:
            yield
        finally:
            for each in gone:
                each.away = False

    def rewritten(self, key: int, version: int, data: bytes) -> bytes:
        """An answer whose brokers have the addresses of proxies, which are begun where need be."""
        if key == ApiVersionsResponse.API_KEY:
            return _limited(version, data)
        if key not in REWRITTEN:
            return data
        answer = REWRITTEN[key].decode(data, version=version, header=True, framed=True)
        found = [answer]
        if key == MetadataResponse.API_KEY:
            found = list(answer.brokers)
        elif version >= COORDINATORS_VERSION:
            found = list(answer.coordinators)
        for each in found:
            if each.port > 0:
                proxy = self._at(each.host, each.port)
                proxy.node = each.node_id
                each.host, each.port = proxy.address
        return bytes(answer.encode(header=True, framed=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for rule in self.rules:
            rule.release()
        with ExitStack() as stack:
            for each in list(self._proxies.values()):
                stack.enter_context(closing(each))
        if self.faults:
            raise self.faults[0]

    def _at(self, host: str, port: int) -> Proxy:
        with self.lock:
            if (host, port) not in self._proxies:
                self._proxies[host, port] = Proxy(self, (host, port))
            return self._proxies[host, port]

    def _of(self, node: int | None) -> list[Proxy]:
        return [each for each in list(self._proxies.values()) if node in (None, each.node)]

    def add(
        self,
        act: Callable[[Rule, Connection, Message], bool],
        api: str | None = None,
        limit: int = 0,
        *,
        answers: bool = False,
        node: int | None = None,
    ) -> Rule:
        assert api is None or api in ApiKey.__members__, api
        rule = Rule(act, ANSWER if answers else REQUEST, api, node, limit)
        with self.lock:
            self.rules.append(rule)
        return rule


def hold(rule: Rule, _connection: Connection, _message: Message) -> bool:
    """Nothing passes, but in the end all of it."""
    rule.released.wait()
    return True


def lose(_rule: Rule, connection: Connection, _message: Message) -> bool:
    """The connection ends in place of passing it."""
    connection.cut()
    return False


def _limited(version: int, data: bytes) -> bytes:
    """Which versions of requests a broker knows: of those that are rewritten, what we know."""
    answer = ApiVersionsResponse.decode(data, version=version, header=True, framed=True)
    if answer.error_code:
        return data
    for each in answer.api_keys:
        if each.api_key in REWRITTEN:
            each.max_version = min(each.max_version, REWRITTEN[each.api_key].max_version)
    return bytes(answer.encode(header=True, framed=True))
