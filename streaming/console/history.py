"""What a pipeline's figures were: read once a second from its checkpoint, kept for a day.

One thread writes (`Recorder.run`), request threads read; a deque's append and its copy are atomic.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http.client import HTTPException
from itertools import pairwise
from typing import Any

import kafka.errors  # noqa: F401  (threads that import it at one time would get a part of it)

from streaming.arrow.histograms import BOUNDS, LATENCY_MS
from streaming.arrow.totals import Totals
from streaming.config import Config
from streaming.errors import SequencerError
from streaming.kafka import client_settings
from streaming.kafka.lag import Lag, LagReader
from streaming.service.checkpoint import Checkpoint
from streaming.service.last_said import Said

FINE_SECONDS, FINE = 1, 600
COARSE_SECONDS, COARSE = 60, 1440
SLOW_SECONDS = 5
"""How often Kafka is asked for the lag, the service for its metrics, and remote checkpoints."""
SCRAPE_SECONDS_MAX = 2
SCRAPE_BYTES_MAX = 8_000_000
SAMPLE = re.compile(r"^sequencer_(\w+)\{([^}]*)\} ([0-9.eE+-]+|\+Inf|NaN)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures at a moment (Unix time, s): counts of records, as `status --json` has them."""

    at: float
    seen: int
    delivered: int
    rejected: int
    held: int
    blocked: int
    lag: int | None = None


@dataclass
class Pipeline:
    """What is known of one pipeline; ``fault``: why nothing newer is.

    ``is_running``: whether a process works on its checkpoint, None where nobody can tell; ``said``:
    what such a process said last.
    """

    status: Mapping[str, Any] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)
    lag: Lag | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    fault: str = ""
    is_running: bool | None = None
    said: Said | None = None
    fine: deque[Sample] = field(default_factory=lambda: deque(maxlen=FINE))
    coarse: deque[Sample] = field(default_factory=lambda: deque(maxlen=COARSE))

    def rate(self, name: str, seconds: float = 10) -> float:
        """Return how much a count grew in a second, over the last ``seconds``."""
        samples = list(self.fine)
        since = [each for each in samples if each.at >= samples[-1].at - seconds] if samples else []
        if len(since) < 2:
            return 0.0
        first, last = since[0], since[-1]
        grown: int = getattr(last, name) - getattr(first, name)
        return max(0, grown) / (last.at - first.at)

    def rates(self, name: str, samples: Sequence[Sample]) -> list[float]:
        """Return the growth of a count in a second, between each sample and the next."""
        values = [(each.at, getattr(each, name)) for each in samples]
        return [
            max(0.0, after - before) / max(later - at, 1e-3)
            for (at, before), (later, after) in pairwise(values)
        ]


class Recorder:
    """Reads the figures of all pipelines until it is stopped.

    Two threads write, each its own fields of a `Pipeline`: `_read` the figures, `_ask` the rest.
    Request threads only read.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.pipelines = {name: Pipeline() for name in config.pipelines}
        self._checkpoints = {name: Checkpoint.of(config, name) for name in config.pipelines}
        self._last_lag: LagReader | None = None
        self._words: Mapping[str, str] = {}  # those of its connections
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._loop, args=(self._read, FINE_SECONDS), daemon=True),
            threading.Thread(target=self._loop, args=(self._ask, SLOW_SECONDS), daemon=True),
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End within a moment; a question to Kafka that is under way is not waited for."""
        self._stop.set()

    def _loop(self, work: Any, seconds: float) -> None:
        while not self._stop.is_set():
            work()
            self._stop.wait(seconds)

    def _read(self) -> None:
        for name, pipeline in self.pipelines.items():
            checkpoint = self._checkpoints[name]
            try:
                status = checkpoint.status()
                if status.get("at") != pipeline.status.get("at"):
                    shards = status.get("shards", {}).values()
                    pipeline.totals = Totals.sum(Totals(**each) for each in shards)
                    pipeline.status = status
                pipeline.fault = ""
            except Exception as error:  # noqa: BLE001  (said; the next look may go)
                is_known = isinstance(error, SequencerError | OSError)
                why = f"{error}" if is_known else f"The figures cannot be read: {error}"
                pipeline.fault = self.config.hide(why)
            totals = pipeline.totals
            sample = Sample(
                time.time(),
                totals.seen,
                totals.delivered,
                sum(totals.rejected.values()),
                totals.held,
                totals.blocked,
                pipeline.lag.records if pipeline.lag else None,
            )
            pipeline.fine.append(sample)
            if not pipeline.coarse or sample.at - pipeline.coarse[-1].at >= COARSE_SECONDS:
                pipeline.coarse.append(sample)

    def _ask(self) -> None:
        self.config.renew()  # a password in a file may be another one now, for all pages
        found = scraped(self.config.service.metrics)
        for name, pipeline in self.pipelines.items():
            pipeline.metrics = found.get(name, {})
            try:
                pipeline.said = self._checkpoints[name].last_said.read()
                pipeline.is_running, _ = self._checkpoints[name].holder()
                pipeline.lag = pipeline.metrics.get("lag") or self._lag(name)
            except Exception:  # noqa: BLE001  (whatever it is, the next look may go)
                pipeline.lag = None

    def _lag(self, name: str) -> Lag:
        """Ask Kafka for the lag, where the service's metrics do not tell it.

        After a failure the next look begins with new clients: librdkafka reads the files of
        certificates once, and these may have been renewed.
        """
        words = client_settings.words(self.config)
        if words != self._words:
            self._forget_clients()
        settings, last = self.config.pipelines[name], self._last_lag
        topics = (*settings.input, settings.commands)  # which may have been given partitions
        clients = None if last is None else last.clients
        reader = LagReader(self.config, topics, clients, announce=False)
        self._last_lag, self._words = reader, words
        read = self._checkpoints[name].read_up_to()
        try:
            return reader(read)
        except Exception:
            self._forget_clients()
            raise

    def _forget_clients(self) -> None:
        last, self._last_lag = self._last_lag, None
        if last is not None:
            last.close()


def scraped(address: str) -> dict[str, dict[str, Any]]:
    """Return the service's metrics by pipeline: phases of the last batch, latencies, the lag.

    Empty where the service has no address for them, or does not answer.
    """
    if not address:
        return {}
    try:
        with urllib.request.urlopen(
            f"http://{address}/metrics", timeout=SCRAPE_SECONDS_MAX
        ) as answer:
            text = answer.read(SCRAPE_BYTES_MAX).decode(errors="replace")
    except (OSError, ValueError, HTTPException):
        return {}
    found: dict[str, dict[str, Any]] = {}
    for name, labels, value in SAMPLE.findall(text):
        label = dict(LABEL.findall(labels))
        one = found.setdefault(label.get("pipeline", ""), {"phases": {}, "latency": {}})
        with contextlib.suppress(ValueError):
            if name == "batch_seconds":
                one["phases"][label["phase"]] = float(value)
            elif name == "latency_seconds_bucket":
                one["latency"][label["le"]] = float(value)
            elif name in ("up", "lag_records", "lag_seconds"):
                one[name] = float(value)
    for one in found.values():
        if "lag_records" in one and "lag_seconds" in one:
            one["lag"] = Lag(round(one["lag_records"]), one["lag_seconds"])
    return found


def latency(metrics: Mapping[str, Any], share: float) -> float | None:
    """Return the latency (s) that so large a share of all deliveries was not above."""
    buckets = metrics.get("latency") or {}
    whole = buckets.get("+Inf", 0)
    if not whole:
        return None
    bounds = sorted((float(le), count) for le, count in buckets.items() if le != "+Inf")
    return next((le for le, count in bounds if count >= share * whole), BOUNDS[LATENCY_MS][-1])


def age_seconds(status: Mapping[str, Any], now: float) -> float | None:
    """Return how old the figures of the last batch are; None where no batch ended yet."""
    at = status.get("at")
    return None if at is None else max(0.0, now - datetime.fromisoformat(at).timestamp())
