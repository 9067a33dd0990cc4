"""Answers to Prometheus (`figures` says what), and to who asks whether the service lives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from streaming.config import Config
from streaming.errors import ConfigError
from streaming.service.figures import Collector
from streaming.service.lag_watch import LagWatch

if TYPE_CHECKING:
    from streaming.service.pipeline import Pipeline

Start = Callable[[str, list[tuple[str, str]]], Any]


@contextmanager
def served(config: Config, pipelines: list[Pipeline]) -> Iterator[None]:
    """Serve /metrics, /healthz and /readyz inside, where the configuration says so.

    ``pipelines`` may be filled later. Raises ConfigError where the address cannot be had.
    """
    if not config.service.metrics:
        yield
        return
    lags = LagWatch(pipelines)
    host, _, port = config.service.metrics.rpartition(":")
    try:
        server = make_server(host, int(port), _app(config, pipelines, lags), WSGIServer, _Quiet)
    except OSError as error:
        raise ConfigError(
            f"service.metrics: {config.service.metrics} cannot be listened on: {error.strerror}.",
            "Nothing was started.",
            'Choose another port, or "" for none.',
        ) from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    lags.start()
    try:
        yield
    finally:
        lags.end()
        server.shutdown()
        server.server_close()


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base's name)
        """Requests are no news."""


def _app(
    config: Config, pipelines: list[Pipeline], lags: LagWatch
) -> Callable[[Any, Start], Iterable[bytes]]:
    from prometheus_client import CollectorRegistry, make_wsgi_app  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(Collector(config.service.name, pipelines, lags))
    metrics = make_wsgi_app(registry)

    def app(environ: Any, start: Start) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            found: Iterable[bytes] = metrics(environ, start)
            return found
        if path == "/healthz":
            return _plain(start, "200 OK", "alive")
        if path == "/readyz":
            missing = not_ready(pipelines)
            if missing is None:
                return _plain(start, "200 OK", "ready")
            return _plain(start, "503 Service Unavailable", missing)
        return _plain(start, "404 Not Found", "known: /metrics, /healthz, /readyz")

    return app


def _plain(start: Start, status: str, text: str) -> list[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [f"{text}\n".encode()]


def not_ready(pipelines: list[Pipeline]) -> str | None:
    """Which pipelines do not run, None where all do."""
    if not pipelines:
        return "starting"
    waiting = [each.name for each in pipelines if not (each.active or each.finished)]
    return f"not running: {', '.join(waiting)}" if waiting else None
