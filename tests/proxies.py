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

import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Self

from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import (
    ApiVersionsResponse,
    FindCoordinatorResponse,
    MetadataResponse,
)

from tests.kafka_helpers import SECONDS_MAX

HOST = "127.0.0.1"
CONNECT_SECONDS = 5
HEAD = struct.Struct(">hhi")  # of a request: key, version, correlation
REWRITTEN = {each.API_KEY: each for each in (MetadataResponse, FindCoordinatorResponse)}
COORDINATORS_VERSION = 4
"""From which on FindCoordinator asks for several."""
REQUEST, ANSWER = "request", "answer"

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Message:
    """A request or an answer as it passes: `api` is Kafka's name of its kind, `node` a broker."""

    direction: str
    api: str
    node: int | None
    data: bytes


@dataclass(slots=True)
class Rule:
    """What becomes of some messages, the first ``limit`` of them (0: all), until it is released.

    ``api`` and ``node`` None: of all kinds, all brokers. ``seen`` are those that it met.
    """

    act: Callable[[Rule, Connection, Message], bool]
    direction: str
    api: str | None
    node: int | None
    limit: int
    seen: list[Message] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def fits(self, message: Message) -> bool:
        """Whether it applies to a message."""
        return (
            not self.released.is_set()
            and (not self.limit or len(self.seen) < self.limit)
            and message.direction == self.direction
            and self.api in (None, message.api)
            and self.node in (None, message.node)
        )

    def release(self) -> None:
        """End the rule; what it held goes on."""
        self.released.set()

    def wait(self, count: int = 1) -> None:
        """Wait until it has met so many messages."""
        until(lambda: len(self.seen) >= count, f"{self.direction} {self.api}")


class Connection:
    """A client's connection to a broker, through a proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, broker: socket.socket) -> None:
        self.proxy, self.client, self.broker = proxy, client, broker
        self.asked: deque[tuple[int, int]] = deque()  # keys and versions, in the order of answers
        self.left = False  # whether the client has
        for each in (client, broker):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for work in (self._requests, self._answers):
            threading.Thread(target=self._until_cut, args=(work,), daemon=True).start()

    def cut(self) -> None:
        """End it for the client; what it sent still reaches the broker."""
        with suppress(OSError):
            self.client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End it for both."""
        for each in (self.client, self.broker):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        with suppress(ValueError):
            self.proxy.connections.remove(self)

    def _until_cut(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError:
            pass
        except Exception as fault:  # noqa: BLE001  (raised where the test ends)
            self.proxy.proxies.faults.append(fault)
            self.cut()
        self.left |= work == self._requests
        if work == self._answers or not self.asked:
            self.close()

    def _requests(self) -> None:
        while (data := _message(self.client)) is not None:
            key, version, _ = HEAD.unpack_from(data, 4)
            self.asked.append((key, version))
            if not self.proxy.passes(self, Message(REQUEST, _name(key), self.proxy.node, data)):
                self.asked.pop()
                continue
            self.broker.sendall(data)

    def _answers(self) -> None:
        while not (self.left and not self.asked) and (data := _message(self.broker)) is not None:
            key, version = self.asked.popleft()
            data = self.proxy.proxies.rewritten(key, version, data)
            if self.proxy.passes(self, Message(ANSWER, _name(key), self.proxy.node, data)):
                with suppress(OSError):  # a client that is gone: the broker is still heard
                    self.client.sendall(data)
        self.cut()


class Proxy:
    """In front of one broker; ``node`` is its number, as soon as a broker has said it."""

    def __init__(self, proxies: Proxies, target: Address) -> None:
        self.proxies, self.target = proxies, target
        self.node: int | None = None
        self.away = False
        self.connections: list[Connection] = []
        self.server = socket.create_server((HOST, 0))
        self.address: Address = (HOST, self.server.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def passes(self, connection: Connection, message: Message) -> bool:
        """Do to a message what the rules say; whether it goes on."""
        for rule in list(self.proxies.rules):
            with self.proxies.lock:
                if not rule.fits(message):
                    continue
                rule.seen.append(message)
            if not rule.act(rule, connection, message):
                return False
        return True

    def cut(self) -> None:
        """End all connections for their clients."""
        for each in list(self.connections):
            each.cut()

    def close(self) -> None:
        """End everything."""
        with suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self.server.close()
        for each in list(self.connections):
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.server.accept()
                try:
                    if self.away:
                        raise ConnectionRefusedError
                    broker = socket.create_connection(self.target, CONNECT_SECONDS)
                except OSError:
                    client.close()
                    continue
                broker.settimeout(None)
                self.connections.append(Connection(self, client, broker))


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

    def hold(
        self,
        api: str | None = None,
        limit: int = 0,
        *,
        answers: bool = False,
        node: int | None = None,
    ) -> Rule:
        """Keep requests, or answers, until the rule is released."""
        return self.add(_hold, api, limit, answers, node)

    def lose(
        self,
        api: str | None = None,
        limit: int = 0,
        *,
        answers: bool = False,
        node: int | None = None,
    ) -> Rule:
        """Cut the connection where a request, or an answer, would pass: it gets lost."""
        return self.add(_lose, api, limit, answers, node)

    def delay(
        self,
        seconds: float,
        api: str | None = None,
        *,
        answers: bool = False,
        node: int | None = None,
    ) -> Rule:
        """Pass each only after so long."""

        def act(rule: Rule, _connection: Connection, _message: Message) -> bool:
            rule.released.wait(seconds)
            return True

        return self.add(act, api, 0, answers, node)

    def watch(self, api: str | None = None, *, answers: bool = False) -> Rule:
        """Only note what passes."""
        return self.add(lambda *_: True, api, 0, answers, None)

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
        api: str | None,
        limit: int,
        answers: bool,
        node: int | None,
    ) -> Rule:
        assert api is None or api in ApiKey.__members__, api
        rule = Rule(act, ANSWER if answers else REQUEST, api, node, limit)
        with self.lock:
            self.rules.append(rule)
        return rule


def until(test: Callable[[], Any], what: str = "a change") -> Any:
    """Wait until ``test`` gives something; returns it."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (found := test()):
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.01)
    return found


def _hold(rule: Rule, _connection: Connection, _message: Message) -> bool:
    rule.released.wait()
    return True


def _lose(_rule: Rule, connection: Connection, _message: Message) -> bool:
    connection.cut()
    return False


def _message(source: socket.socket) -> bytes | None:
    """The next message with its length before it; None at the end of the connection."""
    head = _exactly(source, 4)
    body = head and _exactly(source, int.from_bytes(head, "big"))
    return head + body if head and body else None


def _exactly(source: socket.socket, count: int) -> bytes | None:
    parts = []
    while count:
        if not (part := source.recv(count)):
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _name(key: int) -> str:
    return next((name for name, each in ApiKey.__members__.items() if each.value == key), str(key))


def _limited(version: int, data: bytes) -> bytes:
    """Which versions of requests a broker knows: of those that are rewritten, what we know."""
    answer = ApiVersionsResponse.decode(data, version=version, header=True, framed=True)
    if answer.error_code:
        return data
    for each in answer.api_keys:
        if each.api_key in REWRITTEN:
            each.max_version = min(each.max_version, REWRITTEN[each.api_key].max_version)
    return bytes(answer.encode(header=True, framed=True))
