"""A small HTTP server that no client can stop: for probes and for Prometheus.

Each connection has a thread and serves one request. A connection ends after
`CONNECTION_SECONDS_MAX`, whatever its client does; of more than `CONNECTIONS_MAX` open ones the
oldest ends.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CONNECTION_SECONDS_MAX = 10.0
CONNECTIONS_MAX = 64
PLAIN = "text/plain; charset=utf-8"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client gets: the status, the body and its type."""

    status: HTTPStatus
    body: bytes
    content_type: str = PLAIN

    @classmethod
    def text(cls, status: HTTPStatus, text: str) -> Answer:
        """Return an answer of one line."""
        return cls(status, f"{text}\n".encode())


Page = Callable[[Mapping[str, str]], Answer]
"""Takes a request's headers."""


@contextmanager
def serving(host: str, port: int, pages: Mapping[str, Page]) -> Iterator[int]:
    """Serve pages by path inside; yields the port. OSError where the address cannot be had.

    A page that raises is answered with 503.
    """
    server = _Server((host, port), _handler(pages))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    """Connections by age. Their threads and the server's share ``_begun``, under ``_lock``."""

    block_on_close = False
    request_queue_size = CONNECTIONS_MAX

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._begun: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        """Bind without HTTPServer's look-up of the host's name, which may wait for DNS."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            while len(self._begun) >= CONNECTIONS_MAX:
                self._cut_off(next(iter(self._begun)))
            self._begun[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Cut off connections that have taken too long; called every half second."""
        latest = time.monotonic() - CONNECTION_SECONDS_MAX
        with self._lock:
            for request in [each for each, begun in self._begun.items() if begun < latest]:
                self._cut_off(request)

    def _cut_off(self, request: socket.socket) -> None:
        """Wake the connection's thread, which then ends; with the lock held."""
        self._begun.pop(request, None)
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._begun.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is no news."""
        del request, client_address
        _log.debug("a connection broke", exc_info=True)


def _handler(pages: Mapping[str, Page]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = CONNECTION_SECONDS_MAX
        server_version = "sequencer"
        sys_version = ""

        def do_GET(self) -> None:
            answer = self._answer()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(answer.body)

        do_HEAD = do_GET  # noqa: N815  (likewise)

        def _answer(self) -> Answer:
            page = pages.get(self.path.partition("?")[0])
            if page is None:
                return Answer.text(HTTPStatus.NOT_FOUND, f"known: {', '.join(pages)}")
            try:
                return page({name.lower(): value for name, value in self.headers.items()})
            except Exception:  # noqa: BLE001  (whatever happens, the client gets an answer)
                _log.debug("no answer", exc_info=True)
                return Answer.text(HTTPStatus.SERVICE_UNAVAILABLE, "not available at the moment")

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base's name)
            """Requests are no news."""

    return Handler
