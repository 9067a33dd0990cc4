"""HTTP endpoints: /metrics for Prometheus (`figures`), /healthz and /readyz for probes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus

from streaming.config import Config
from streaming.errors import ConfigError
from streaming.service.metrics.figures import Collector, build
from streaming.service.metrics.health import Health
from streaming.service.metrics.http import Answer, Page, serving
from streaming.service.metrics.lag_watch import LagWatch


@contextmanager
def served(config: Config, health: Health, stopping: threading.Event) -> Iterator[int | None]:
    """Serve the endpoints inside, where the configuration says so; yields the port.

    Raises ConfigError where the address cannot be had.
    """
    if not config.service.metrics:
        yield None
        return
    lags = LagWatch(health.pipelines)
    host, _, port = config.service.metrics.rpartition(":")
    pages = {
        "/metrics": metrics_page(Collector(config.service.name, health.pipelines, lags)),
        "/healthz": lambda _headers: _answer(health.fault(), "alive"),
        "/readyz": lambda _headers: _answer(
            "stopping" if stopping.is_set() else health.missing(), "ready"
        ),
    }
    with ExitStack() as stack:
        try:
            used = stack.enter_context(serving(host.strip("[]"), int(port), pages))
        except OSError as error:
            raise ConfigError(
                f"service.metrics: {config.service.metrics} cannot be used: {error.strerror}.",
                "Nothing was started.",
                'Choose another port, or "" for none.',
            ) from error
        lags.start()
        stack.callback(lags.end)
        yield used


def metrics_page(collector: Collector) -> Page:
    """Return the page that shows a collector's metrics, in the format that a client accepts."""
    from prometheus_client import CollectorRegistry, ProcessCollector  # noqa: PLC0415
    from prometheus_client.exposition import choose_encoder  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(collector)
    registry.register(build())
    ProcessCollector(registry=registry)

    def page(headers: Mapping[str, str]) -> Answer:
        encode, content_type = choose_encoder(headers.get("accept", ""))
        return Answer(HTTPStatus.OK, encode(registry), content_type)

    return page


def _answer(problem: str | None, well: str) -> Answer:
    if problem is None:
        return Answer.text(HTTPStatus.OK, well)
    return Answer.text(HTTPStatus.SERVICE_UNAVAILABLE, problem)
