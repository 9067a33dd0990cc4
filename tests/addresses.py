"""Addresses that drop packets or never answer, and names that lead to several addresses, or to none."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

Address = tuple[str, int]

FILLED_SECONDS = 0.5
"""On one machine a connection that is not there by then will not be."""


@contextmanager
def dropping(host: str = "127.0.0.1", port: int = 0) -> Iterator[Address]:
    """An address that drops packets: its queue of connections is full, and nobody takes them."""
    with ExitStack() as stack:
        server = stack.enter_context(socket.socket())
        server.bind((host, port))
        server.listen(0)
        address: Address = server.getsockname()
        while True:
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(address)
            if not select.select([], [client], [], FILLED_SECONDS)[1]:
                break
        yield address


@contextmanager
def hanging() -> Iterator[Address]:
    """An address that takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


class Names:
    """Which addresses some names and ports lead to; all others are looked up as ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: dict[Address, list[Address]] = {}
        self._look_up = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self.look_up)

    def look_up(self, host: str, port: int, *arguments: Any, **more: Any) -> list[Any]:
        """Stand in for `socket.getaddrinfo`."""
        if (host, port) not in self.of:
            return self._look_up(host, port, *arguments, **more)
        if not self.of[host, port]:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [found for each in self.of[host, port] for found in self._look_up(*each, *arguments)]


def text(address: Address) -> str:
    """``host:port``."""
    return "{}:{}".format(*address)
