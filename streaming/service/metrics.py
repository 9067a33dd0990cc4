"""What the running service tells Prometheus, and whoever asks whether it lives and is ready.

All of it is what the driver knows anyway, read when somebody asks: counts of the last batch, who
waits, and Spark's report of the last batch.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from streaming.config import Config
from streaming.errors import ConfigError
from streaming.service.offsets import offsets_of

if TYPE_CHECKING:
    from prometheus_client import Metric

    from streaming.service.pipeline import Pipeline

Start = Callable[[str, list[tuple[str, str]]], Any]

COUNTS = {
    "in": ("seen", "Records read from the inputs."),
    "delivered": ("delivered", "Records written to the output."),
    "dropped": ("dropped", "Duplicates that were only counted."),
    "undelivered": ("undelivered", "Destinations that a message did not reach."),
    "gaps": ("gaps", "Gaps announced."),
}
GAUGES = {
    "held": ("held", "Records that wait for a gap."),
    "blocked": ("blocked", "Keys with something held."),
    "keys": ("channels", "Channels, subscribers or peers that are remembered."),
}


@contextmanager
def served(config: Config, pipelines: list[Pipeline]) -> Iterator[None]:
    """Serve /metrics, /healthz and /readyz inside, where the configuration says so.

    ``pipelines`` may be filled later. Raises ConfigError where the address cannot be had.
    """
    if not config.service.metrics:
        yield
        return
    host, _, port = config.service.metrics.rpartition(":")
    try:
        server = make_server(host, int(port), _app(config, pipelines), WSGIServer, _Quiet)
    except OSError as error:
        raise ConfigError(
            f"service.metrics: {config.service.metrics} cannot be listened on: {error.strerror}.",
            "Nothing was started.",
            'Choose another port, or "" for none.',
        ) from error
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base's name)
        """Requests are no news."""


def _app(config: Config, pipelines: list[Pipeline]) -> Callable[[Any, Start], Iterable[bytes]]:
    from prometheus_client import CollectorRegistry, make_wsgi_app  # noqa: PLC0415

    registry = CollectorRegistry()
    registry.register(Collector(config.service.name, pipelines))
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


class Collector:
    """The figures of all pipelines at the moment of asking."""

    def __init__(self, service: str, pipelines: list[Pipeline]) -> None:
        self.service = service
        self.pipelines = pipelines

    def collect(self) -> Iterator[Metric]:
        """The metrics, as prometheus_client wants them."""
        families = _Families(self.service)
        for pipeline in list(self.pipelines):
            _tell_counts(families, pipeline)
            _tell_spark(families, pipeline)
        yield from families.all()


class _Families:
    """Metrics with a sample for each pipeline, made when they are first needed."""

    def __init__(self, service: str) -> None:
        self.service = service
        self._found: dict[str, Any] = {}

    def add(
        self, kind: str, name: str, told: str, pipeline: str, value: float, **labels: str
    ) -> None:
        """One sample; ``kind`` is "counter" or "gauge"."""
        from prometheus_client.core import (  # noqa: PLC0415
            CounterMetricFamily,
            GaugeMetricFamily,
        )

        if name not in self._found:
            made = CounterMetricFamily if kind == "counter" else GaugeMetricFamily
            names = ["service", "pipeline", *labels]
            self._found[name] = made(f"sequencer_{name}", told, labels=names)
        self._found[name].add_metric([self.service, pipeline, *labels.values()], value)

    def all(self) -> Iterator[Metric]:
        yield from self._found.values()


def _tell_counts(families: _Families, pipeline: Pipeline) -> None:
    name, progress = pipeline.name, pipeline.progress
    totals = progress.totals()
    for metric, (field, told) in COUNTS.items():
        families.add("counter", metric, told, name, getattr(totals, field))
    for reason, count in totals.rejected.items():
        told = "Records rejected, by reason."
        families.add("counter", "rejected", told, name, count, reason=reason)
    for metric, (field, told) in GAUGES.items():
        families.add("gauge", metric, told, name, getattr(totals, field))
    told = "How long the oldest record waits for a gap."
    families.add("gauge", "oldest_held_seconds", told, name, _oldest_held_s(pipeline))
    told = "Starts of the pipeline after its first."
    families.add("counter", "restarts", told, name, pipeline.starts - 1)
    families.add("gauge", "up", "Whether the pipeline runs.", name, pipeline.active)
    families.add("gauge", "batch", "Number of the last batch.", name, progress.batch)


def _oldest_held_s(pipeline: Pipeline) -> float:
    texts = list(pipeline.progress.waiting.values())
    settings = pipeline.config.pipelines[pipeline.name]
    oldest = pipeline.discipline.waiting(settings, texts, 1)
    if not oldest:
        return 0.0
    return max(0.0, time.time() - datetime.fromisoformat(oldest[0]["since"]).timestamp())


def _tell_spark(families: _Families, pipeline: Pipeline) -> None:
    """What Spark reports of the last batch: phases, how far behind Kafka it is, the state."""
    last: Any = None
    with contextlib.suppress(Exception):  # it ends just now; there is no report then
        last = pipeline.query.lastProgress if pipeline.query is not None else None
    if last is None:
        return
    name = pipeline.name
    for phase, duration_ms in last["durationMs"].items():
        told = "Duration of the last batch, by phase; triggerExecution is the whole."
        families.add("gauge", "batch_seconds", told, name, duration_ms / 1000, phase=phase)
    latest, read = offsets_of(last, "latestOffset"), offsets_of(last, "endOffset")
    lag = sum(
        max(0, end - read.get(topic, {}).get(partition, 0))
        for topic, ends in latest.items()
        for partition, end in ends.items()
    )
    families.add("gauge", "lag", "Records in Kafka that are not read yet.", name, lag)
    size = sum(each["memoryUsedBytes"] for each in last["stateOperators"])
    families.add("gauge", "state_memory_bytes", "Memory of the state store.", name, size)
