"""What passes between a client and one broker: messages, rules for them, connections (`tests.proxies`)."""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka.protocol.api_key import ApiKey

from tests.kafka_helpers import until

if TYPE_CHECKING:
    from tests.proxies import Proxies

HOST = "127.0.0.1"
CONNECT_SECONDS = 5
HEAD = struct.Struct(">hhi")  # of a request: key, version, correlation
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
