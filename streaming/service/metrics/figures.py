"""What the metrics are: their names and kinds, and how they are read off the running pipelines.

All of it is what the driver knows anyway, read when somebody asks: counts of the last batch, who
waits, what the sinks did, and Spark's report of the last batch.
"""

from __future__ import annotations

import contextlib
import platform
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from streaming.arrow.histograms import BOUNDS, DISPLACED, LATE_MS, LATENCY_MS, WAITED_MS
from streaming.storage.files import is_local, local_path

if TYPE_CHECKING:
    from prometheus_client import Metric

    from streaming.service.metrics.lag_watch import LagWatch
    from streaming.service.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class Kind:
    """A metric: its kind ("counter", "gauge" or "histogram"), what it means, its own labels."""

    kind: str
    meaning: str
    labels: tuple[str, ...] = ()


METRICS = {
    "records_in": Kind("counter", "Records read from the inputs."),
    "records_delivered": Kind("counter", "Records written to the output."),
    "records_rejected": Kind("counter", "Records rejected, by reason.", ("reason",)),
    "records_late": Kind("counter", "Records rejected because their label had been given up."),
    "records_passed": Kind("counter", "Records delivered without a label, where they arrived."),
    "records_dropped": Kind("counter", "Duplicates that were only counted."),
    "records_undelivered": Kind("counter", "Destinations that a message did not reach."),
    "gaps": Kind("counter", "Gaps announced."),
    "asked": Kind("counter", "Requests for missing labels."),
    "answered": Kind("counter", "Missing labels that were asked for and came, or will not come."),
    "held_records": Kind("gauge", "Records that wait for others."),
    "transit_messages": Kind("gauge", "Messages between shards that were not taken yet."),
    "blocked_keys": Kind("gauge", "Keys with something held."),
    "keys": Kind("gauge", "Channels, subscribers or peers that are remembered."),
    "oldest_held_seconds": Kind("gauge", "How long the oldest record waits for others."),
    "lag_records": Kind("gauge", "Records in Kafka that were not read yet."),
    "lag_seconds": Kind(
        "gauge", "Since an end beyond what was read was first seen, or ends could be seen at all."
    ),
    "latency_seconds": Kind("histogram", "From a record's timestamp to its committed delivery."),
    "displaced_labels": Kind("histogram", "Labels between a message and the highest before it."),
    "lateness_seconds": Kind("histogram", "How long others had waited for a message that came."),
    "waited_seconds": Kind("histogram", "How long messages were held that were delivered then."),
    "transactions": Kind("counter", "Transactions committed."),
    "transactions_found": Kind("counter", "Parts of a repeated batch that Kafka had already."),
    "restarts": Kind("counter", "Starts of the pipeline after its first."),
    "up": Kind("gauge", "Whether the pipeline runs."),
    "batch_number": Kind("gauge", "Number of the last batch."),
    "last_batch_timestamp_seconds": Kind(
        "gauge", "When the last batch ended, or the pipeline was started since (Unix time)."
    ),
    "batch_seconds": Kind(
        "gauge", "Duration of the last batch, by phase; triggerExecution is the whole.", ("phase",)
    ),
    "state_memory_bytes": Kind("gauge", "Memory of the state store."),
    "state_bytes": Kind("gauge", "Files of the state store."),
    "checkpoint_free_bytes": Kind("gauge", "Free on the disk of a checkpoint that is a folder."),
}
"""By name, without "sequencer_" before and, for a counter, "_total" behind."""

COUNTS = {
    "records_in": "seen",
    "records_delivered": "delivered",
    "records_passed": "passed",
    "records_dropped": "dropped",
    "records_undelivered": "undelivered",
    "gaps": "gaps",
    "asked": "asked",
    "answered": "answered",
    "held_records": "held",
    "transit_messages": "transit",
    "blocked_keys": "blocked",
    "keys": "channels",
}
"""Metrics that are counts of `streaming.arrow.totals`."""

HISTOGRAMS = {
    "displaced_labels": (DISPLACED, 1),
    "lateness_seconds": (LATE_MS, 1000),
    "waited_seconds": (WAITED_MS, 1000),
}
"""Metrics that are histograms there, and how many of their units are one of the metric's."""

FILES_SIZE = "rocksdbSstFileSize"


class Collector:
    """The figures of all pipelines at the moment of asking, as prometheus_client wants them."""

    def __init__(self, service: str, pipelines: list[Pipeline], lags: LagWatch) -> None:
        self.service = service
        self.pipelines = pipelines
        self.lags = lags

    def collect(self) -> Iterator[Metric]:
        """The metrics."""
        families = _Families(self.service)
        for pipeline in list(self.pipelines):
            _tell_counts(families, pipeline)
            _tell_written(families, pipeline)
            _tell_spark(families, pipeline)
            lag = self.lags.of(pipeline.name)
            if lag is not None:
                families.add("lag_records", pipeline.name, lag.records)
                families.add("lag_seconds", pipeline.name, lag.seconds)
        yield from families.all()


def build() -> Any:
    """Return the metric that says what is running: versions, the value always 1."""
    from prometheus_client import Info  # noqa: PLC0415

    info = Info("sequencer_build", "What is running.", registry=None)
    info.info(
        {
            "version": version("spark-sequencer"),
            "python": platform.python_version(),
            "spark": version("pyspark"),
        }
    )
    return info


class _Families:
    """Metrics with a sample for each pipeline, made when they are first needed."""

    def __init__(self, service: str) -> None:
        self.service = service
        self._found: dict[str, Any] = {}

    def add(self, name: str, pipeline: str, value: float, *labels: str) -> None:
        """One sample."""
        self._family(name).add_metric([self.service, pipeline, *labels], value)

    def add_histogram(
        self, name: str, pipeline: str, bounds: Sequence[int], counts: list[int], unit: int
    ) -> None:
        """A histogram of `streaming.arrow.histograms`, ``unit`` of whose values are 1 here."""
        *buckets, total = counts or [0] * (len(bounds) + 2)
        names = [*(f"{bound / unit:g}" for bound in bounds), "+Inf"]
        pairs = list(zip(names, accumulate(buckets), strict=True))
        self._family(name).add_metric([self.service, pipeline], pairs, total / unit)

    def all(self) -> Iterator[Metric]:
        yield from self._found.values()

    def _family(self, name: str) -> Any:
        from prometheus_client import core  # noqa: PLC0415  (who has no metrics needs none)

        if name not in self._found:
            metric = METRICS[name]
            metric_class = {
                "counter": core.CounterMetricFamily,
                "gauge": core.GaugeMetricFamily,
                "histogram": core.HistogramMetricFamily,
            }[metric.kind]
            labels = ["service", "pipeline", *metric.labels]
            self._found[name] = metric_class(f"sequencer_{name}", metric.meaning, labels=labels)
        return self._found[name]


def _tell_counts(families: _Families, pipeline: Pipeline) -> None:
    """What shards reported, and how the pipeline fares."""
    name, progress = pipeline.name, pipeline.progress
    totals = progress.totals()
    for metric, field in COUNTS.items():
        families.add(metric, name, getattr(totals, field))
    none = dict.fromkeys(pipeline.discipline.reasons, 0)  # a rate needs the 0 before the first one
    for reason, number in {**none, **totals.rejected}.items():
        families.add("records_rejected", name, number, reason)
    families.add("records_late", name, totals.rejected.get("late", 0))
    if pipeline.discipline.disorder:
        for metric, (kept, unit) in HISTOGRAMS.items():
            counts = totals.histograms.get(kept, [])
            families.add_histogram(metric, name, BOUNDS[kept], counts, unit)
    families.add("oldest_held_seconds", name, _oldest_held_s(pipeline))
    families.add("restarts", name, max(0, pipeline.starts - 1))
    families.add("up", name, pipeline.runs)
    families.add("batch_number", name, progress.batch)
    families.add("last_batch_timestamp_seconds", name, pipeline.worked)
    location = pipeline.checkpoint.location
    if is_local(location):
        with contextlib.suppress(OSError):
            free = shutil.disk_usage(local_path(location)).free
            families.add("checkpoint_free_bytes", name, free)


def _tell_written(families: _Families, pipeline: Pipeline) -> None:
    name, written = pipeline.name, pipeline.progress.written
    families.add("transactions", name, written.transactions)
    families.add("transactions_found", name, written.found)
    families.add_histogram(
        "latency_seconds", name, BOUNDS[LATENCY_MS], written.latency_ms, unit=1000
    )


def _oldest_held_s(pipeline: Pipeline) -> float:
    texts = list(pipeline.progress.waiting.values())  # a batch may change it meanwhile
    settings = pipeline.config.pipelines[pipeline.name]
    oldest = pipeline.discipline.waiting(settings, texts, 1)
    if not oldest:
        return 0.0
    return max(0.0, time.time() - datetime.fromisoformat(oldest[0]["since"]).timestamp())


def _tell_spark(families: _Families, pipeline: Pipeline) -> None:
    """What Spark reports of the last batch: phases, the state."""
    last = pipeline.last_report
    if last is None:
        return
    name = pipeline.name
    for phase, duration_ms in last["durationMs"].items():
        families.add("batch_seconds", name, duration_ms / 1000, phase)
    states = last["stateOperators"]
    families.add("state_memory_bytes", name, sum(each["memoryUsedBytes"] for each in states))
    files = sum(dict(each["customMetrics"]).get(FILES_SIZE, 0) for each in states)
    families.add("state_bytes", name, files)
