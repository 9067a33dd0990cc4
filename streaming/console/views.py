"""What the pages show: plain values for the templates, made from figures and topics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from streaming.arrow.histograms import LATE_MS, WAITED_MS
from streaming.arrow.json_object import object_in
from streaming.arrow.key_text import unescaped
from streaming.arrow.output import PLACE
from streaming.config import Config
from streaming.console.history import FINE, Pipeline, Recorder, age_seconds, latency
from streaming.console.prometheus import Prometheus
from streaming.console.values import channel_of, is_number
from streaming.console.waits import oldest_wait
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.channels.sql import header_name
from streaming.graph import charts
from streaming.graph.histograms import histogram
from streaming.kafka.newest import Found, Search, search
from streaming.replay.advice import advise, gap_time

RECORDS_SHOWN = 100
STALE_SECONDS = 30
BACK = {60: "a minute", 600: "10 minutes", 3600: "1 hour", 21_600: "6 hours", 86_400: "a day"}
"""How far back the overview's lines may go, s."""
COMMAND_EVENTS = ("command-done", "command-refused")


def back_of(text: str) -> int:
    """Return how many seconds back somebody asked for; ten minutes where they asked for none."""
    return int(text) if is_number(text) and int(text) in BACK else FINE


def overview(recorder: Recorder, prometheus: Prometheus | None, back: int) -> list[dict[str, Any]]:
    """Return the figures of each pipeline, with lines over the last ``back`` seconds."""
    return [
        _figures(recorder, name) | _lines(recorder, prometheus, name, back)
        for name in recorder.pipelines
    ]


def _lines(
    recorder: Recorder, prometheus: Prometheus | None, name: str, back: int
) -> dict[str, str]:
    """Return the lines of a pipeline: Prometheus's where it answers, else what was seen here."""
    drawn: dict[str, str] = {}
    titles = {"in": "records in, a second", "out": "records out, a second", "held": "held"}
    for kind, title in titles.items():
        values = None
        if prometheus is not None:
            values = prometheus.history(recorder.config.service.name, name, kind, back)
        if values is None:
            values = _seen(recorder.pipelines[name], kind, back)
        drawn[f"{kind}_chart"] = charts.line(values, title)
    return drawn


def _seen(pipeline: Pipeline, kind: str, back: int) -> list[float]:
    samples = list(pipeline.fine if back <= FINE else pipeline.coarse)
    recent = [each for each in samples if each.at >= time.time() - back]
    if kind == "held":
        return [float(each.held) for each in recent]
    return pipeline.rates("seen" if kind == "in" else "delivered", recent)


def _figures(recorder: Recorder, name: str) -> dict[str, Any]:
    pipeline, settings = recorder.pipelines[name], recorder.config.pipelines[name]
    now = time.time()
    totals = pipeline.totals
    age = age_seconds(pipeline.status, now)
    metrics = pipeline.metrics
    return {
        "name": name,
        "discipline": settings.discipline,
        "state": _state(recorder.config, pipeline, age),
        "age": age,
        "batch": pipeline.status.get("batch"),
        "batch_ms": pipeline.status.get("batch_ms"),
        "in_rate": pipeline.rate("seen"),
        "out_rate": pipeline.rate("delivered"),
        "seen": totals.seen,
        "delivered": totals.delivered,
        "held": totals.held,
        "blocked": totals.blocked,
        "gaps": totals.gaps,
        "rejected": sum(totals.rejected.values()),
        "reasons": sorted(totals.rejected.items(), key=lambda each: -each[1]),
        "lag": pipeline.lag,
        "oldest": oldest_wait(recorder.config, name, now) if totals.blocked else None,
        "p50": latency(metrics, 0.5),
        "p99": latency(metrics, 0.99),
        "phases": sorted(metrics.get("phases", {}).items(), key=lambda each: -each[1]),
        "fault": pipeline.fault,
        "said": pipeline.said,
    }


def _state(config: Config, pipeline: Pipeline, age: float | None) -> str:
    """Say what is known of whether the service runs."""
    if pipeline.metrics.get("up"):
        return "runs"
    if pipeline.is_running is False:
        return "does not run; the figures are those of its last batch"
    said = "no service.metrics: whether it runs is not known"
    lag = pipeline.lag.records if pipeline.lag else 0
    if config.service.metrics:
        said = "the service does not answer at " + config.service.metrics
    elif pipeline.is_running:
        said = "runs"
    elif age is None:
        said = "no batch has ended yet"
    elif lag and age > STALE_SECONDS:
        said = f"does not seem to run: {lag:,} records are waiting in Kafka"
    return said


def looked(*searches: Search) -> str:
    """Say how much of the topics was looked at."""
    offsets = sum(each.offsets for each in searches)
    whole = all(each.is_whole for each in searches)
    return f"{offsets:,} offsets looked at" + ("" if whole else ", not those before")


def records(
    config: Config, name: str, topic: str, asked: Mapping[str, str], seconds: float
) -> tuple[list[Found], Search]:
    """Return the newest records of a pipeline's topic, newest first, and how far back was looked.

    ``asked``: ``key``, as `status --blocked` shows it; ``header`` as name=value; ``label``: its
    text. Empty ones match all. ValueError where a key is none.
    """
    wanted_key = unescaped(asked["key"]) if asked["key"] else None
    header, _, value = asked["header"].partition("=")
    label, label_header = asked["label"], _label_header(config, name)

    def matches(record: Found) -> bool:
        return (
            (wanted_key is None or record.key == wanted_key)
            and (not header or record.text(header) == value)
            and (not label or record.text(label_header) == label)
        )

    found = search(config, [topic], matches, RECORDS_SHOWN, seconds_max=seconds)
    newest = sorted(found.records, key=lambda each: -each.timestamp)[:RECORDS_SHOWN]
    return newest, found


def _label_header(config: Config, name: str) -> str:
    """Return the header that has a record's label."""
    settings = config.pipelines[name]
    if settings.discipline == "label":
        return config.service.header_prefix + "label"
    return header_name(getattr(settings, "label", "")) or "label"


def reject_of(config: Config, found: Found) -> dict[str, str]:
    """Return the reason and the input's place of a reject; nothing for another record."""
    prefix = config.service.header_prefix
    if not found.header(prefix + "reject-reason"):
        return {}
    parts = [found.text(f"{prefix}reject-{each}") for each in ("topic", "partition", "offset")]
    place = f"{parts[0]}/{parts[1]}@{parts[2]}"
    return {"reason": found.text(prefix + "reject-reason"), "rejected_place": place}


def disorder(recorder: Recorder, name: str, share: float) -> dict[str, Any]:
    """Return how far and how late messages came, and what other settings would have given up."""
    settings = recorder.config.pipelines[name]
    totals = recorder.pipelines[name].totals
    advice = advise(totals, share)
    after = getattr(getattr(settings.gap, "after", None), "ms", None)
    shown = [histogram(kind, totals.histograms, after) for kind in (LATE_MS, WAITED_MS)]
    pictures = [
        (each.title, charts.bars(each.names, each.counts, each.marked, each.title))
        for each in shown
    ]
    return {
        "advice": advice,
        "after": [(gap_time(each), each.share) for each in advice.after_ms],
        "labels": [(each.value, each.share) for each in advice.labels],
        "best": gap_time(advice.after_best) if advice.after_best else None,
        "pictures": pictures,
        "share": share,
        "policy": settings.gap,
    }


def events(config: Config, name: str, kind: str, text: str, seconds: float) -> dict[str, Any]:
    """Return the newest events: ``kind`` "commands" for the audit, else one event's name or all.

    ``about`` of a row: the place of the record that it is about, where it says one of our topics.
    """
    settings = config.pipelines[name]

    def matches(record: Found) -> bool:
        event = object_in(record.value) or {}
        is_command = event.get("event") in COMMAND_EVENTS
        fits = is_command if kind == "commands" else kind in ("", event.get("event"))
        return fits and (not text or text in (record.value or b"").decode(errors="replace"))

    found = search(config, [settings.events], matches, RECORDS_SHOWN, seconds_max=seconds)
    ours = [topic for _, topic in settings.topics()]
    rows = [_row(object_in(each.value) or {}, each.place_text, ours) for each in found.records]
    rows.sort(key=lambda each: str(each.get("at", "")), reverse=True)
    return {
        "rows": rows[:RECORDS_SHOWN],
        "looked": looked(found),
        "is_whole": found.is_whole,
        "kinds": DISCIPLINES[settings.discipline].events,
        "kind": kind,
        "text": text,
    }


def _row(event: Mapping[str, Any], place: str, topics: list[str]) -> dict[str, Any]:
    about = "{}/{}@{}".format(*(event.get(each) for each in PLACE))
    return {**event, "place": place, "about": about if event.get("topic") in topics else None}


def rejects(
    recorder: Recorder, name: str, asked: Mapping[str, str], seconds: float
) -> dict[str, Any]:
    """Return the newest rejects, and how many there are of each reason.

    ``asked``: ``reason``, and ``key`` (or channel) as `status --blocked` shows it; empty ones match
    all. ValueError where a key is none.
    """
    wanted_key = unescaped(asked["key"]) if asked["key"] else None
    reason = asked["reason"]
    config = recorder.config
    settings = config.pipelines[name]
    header = config.service.header_prefix + "reject-reason"

    def matches(record: Found) -> bool:
        is_its = wanted_key is None or wanted_key in (record.key, channel_of(settings, record))
        return is_its and (not reason or record.text(header) == reason)

    found = search(config, [settings.rejects], matches, RECORDS_SHOWN, seconds_max=seconds)
    newest = sorted(found.records, key=lambda each: -each.timestamp)[:RECORDS_SHOWN]
    return {
        "rows": [(each, each.text(header)) for each in newest],
        "counts": sorted(recorder.pipelines[name].totals.rejected.items()),
        **asked,
        "looked": looked(found),
        "is_whole": found.is_whole,
    }
