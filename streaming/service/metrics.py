"""HTTP endpoints: /metrics for Prometheus (`figures`), /healthz and /readyz for probes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from streaming.config import Config
from streaming.errors import ConfigError
from streaming.service.figures import Collector
from streaming.service.http import Answer, Page, serving
from streaming.service.lag_watch import LagWatch

if TYPE_CHECKING:
    from streaming.service.pipeline import Pipeline


@contextmanager
def served(
    config: Config, pipelines: list[Pipeline], stopping: threading.Event
) -> Iterator[int | None]:
    """Serve the endpoints inside, where the configuration says so; yields the port.

    ``pipelines`` may be filled later. Raises ConfigError where the address cannot be had.
    """
    if not config.service.metrics:
        yield None
        return
    lags = LagWatch(pipelines)
    host, _, port = config.service.metrics.rpartition(":")
    pages = {
        "/metrics": metrics_page(Collector(config.service.name, pipelines, lags)),
        "/healthz": lambda _headers: Answer.text(HTTPStatus.OK, "alive"),
        "/readyz": lambda _headers: _readiness(pipelines, stopping),
    }
    with ExitStack() as stack:
        try:
            used = stack.enter_context(serving(host, int(port), pages))
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
    from prometheus_client import CollectorRegistry  # noqa: PLC0415
    from prometheus_client.exposition import choose_encoder  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(collector)

    def page(headers: Mapping[str, str]) -> Answer:
        encode, content_type = choose_encoder(headers.get("accept", ""))
        return Answer(HTTPStatus.OK, encode(registry), content_type)

    return page


def _readiness(pipelines: list[Pipeline], stopping: threading.Event) -> Answer:
    missing = "stopping" if stopping.is_set() else not_ready(pipelines)
    if missing is None:
        return Answer.text(HTTPStatus.OK, "ready")
    return Answer.text(HTTPStatus.SERVICE_UNAVAILABLE, missing)


def not_ready(pipelines: list[Pipeline]) -> str | None:
    """Return which pipelines do not run, None where all do."""
    if not pipelines:
        return "starting"
    waiting = [each.name for each in pipelines if not (each.runs or each.finished)]
    return f"not running: {', '.join(waiting)}" if waiting else None
