"""What the pages show: plain values for the templates, made from figures and topics."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from streaming.arrow.histograms import BOUNDS, LATE_MS, WAITED_MS
from streaming.arrow.key_text import escaped, key_from_json, unescaped
from streaming.config import Config
from streaming.console.history import Pipeline, Recorder, age_seconds, latency
from streaming.disciplines import DISCIPLINES
from streaming.graph import charts, lanes
from streaming.kafka.newest import Found, Search, search
from streaming.service.advice import advise, told_after
from streaming.service.checkpoint import Checkpoint

BLOCKED_SHOWN = 200
RECORDS_SHOWN = 100
LANE_ARRIVALS = 48
PAYLOAD_BYTES_MAX = 4_096
STALE_SECONDS = 30
COMMAND_EVENTS = ("command-done", "command-refused")


def overview(recorder: Recorder) -> list[dict[str, Any]]:
    """Return the figures of each pipeline."""
    return [_figures(recorder, name) for name in recorder.pipelines]


def _figures(recorder: Recorder, name: str) -> dict[str, Any]:
    pipeline, settings = recorder.pipelines[name], recorder.config.pipelines[name]
    now = time.time()
    fine, totals = list(pipeline.fine), pipeline.totals
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
        "in_chart": charts.line(pipeline.rates("seen", fine), "records in, a second"),
        "out_chart": charts.line(pipeline.rates("delivered", fine), "records out, a second"),
        "held_chart": charts.line([each.held for each in fine], "held"),
        "day_chart": charts.line(pipeline.rates("delivered", list(pipeline.coarse)), "last day"),
        "seen": totals.seen,
        "delivered": totals.delivered,
        "held": totals.held,
        "blocked": totals.blocked,
        "gaps": totals.gaps,
        "rejected": sum(totals.rejected.values()),
        "reasons": sorted(totals.rejected.items(), key=lambda each: -each[1]),
        "lag": pipeline.lag,
        "oldest": _oldest_wait(recorder.config, name, now) if totals.blocked else None,
        "p50": latency(metrics, 0.5),
        "p99": latency(metrics, 0.99),
        "phases": sorted(metrics.get("phases", {}).items(), key=lambda each: -each[1]),
        "fault": pipeline.fault,
    }


def _state(config: Config, pipeline: Pipeline, age: float | None) -> str:
    """Say what is known of whether the service runs."""
    if config.service.metrics:
        if pipeline.metrics.get("up"):
            return "runs"
        return "the service does not answer at " + config.service.metrics
    if age is None:
        return "no batch has ended yet"
    lag = pipeline.lag.records if pipeline.lag else 0
    if lag and age > STALE_SECONDS:
        return f"does not seem to run: {lag:,} records are waiting in Kafka"
    return "no service.metrics: whether it runs is not known"


def _oldest_wait(config: Config, name: str, now: float) -> float | None:
    rows = waiting(config, name, 1)
    return _waited(rows[0]["since"], now) if rows else None


def waiting(config: Config, name: str, most: int | None) -> list[dict[str, Any]]:
    """Return who waits, longest first, as `status --blocked` has it."""
    settings = config.pipelines[name]
    texts = Checkpoint.of(config, name).waiting().values()
    return DISCIPLINES[settings.discipline].waiting(settings, texts, most)


def blocked(recorder: Recorder, name: str, asked: str) -> dict[str, Any]:
    """Return the channels that wait; ``asked``: only those in whose name this stands."""
    config = recorder.config
    settings = config.pipelines[name]
    rows = waiting(config, name, None if asked else BLOCKED_SHOWN)
    now = time.time()
    gap = getattr(settings, "gap", None)
    shown = []
    for row in rows:
        key = key_from_json(row["channel"])
        if asked and asked not in escaped(key):
            continue
        shown.append(
            {
                **row,
                "key": escaped(key),
                "code": encoded_key(key),
                "waited": _waited(row["since"], now),
                "fate": fate(gap, row["since"], now),
            }
        )
        if len(shown) == BLOCKED_SHOWN:
            break
    totals = recorder.pipelines[name].totals
    return {"rows": shown, "blocked": totals.blocked, "held": totals.held, "asked": asked}


def fate(gap: Any, since: str, now: float) -> str:
    """Say what the gap policy will do, and when."""
    after = getattr(gap, "after", None)
    if gap is None or gap.policy == "wait":
        return "waits until the label comes or is given up by hand"
    left = getattr(after, "ms", None)
    if left is None:
        return f"policy {gap.policy}, by a time that sets itself"
    left = left / 1000 - _waited(since, now)
    what = "is given up" if gap.policy == "skip" else "the pipeline stops"
    return f"{what} in {left:,.0f} s" if left > 0 else f"{what} with the next batch"


def _waited(since: str, now: float) -> float:
    return max(0.0, now - datetime.fromisoformat(since).timestamp())


def encoded_key(key: bytes) -> str:
    """Return a key as addresses have it."""
    return base64.urlsafe_b64encode(key).decode()


def decoded_key(code: str) -> bytes:
    """Return the key that :func:`encoded_key` was given. ValueError for others."""
    return base64.b64decode(code, altchars=b"-_", validate=True)


def channel(recorder: Recorder, name: str, key: bytes) -> dict[str, Any]:
    """Return what is known of a channel: whether it waits, its newest records, its lanes."""
    config = recorder.config
    settings = config.pipelines[name]
    now = time.time()
    rows = [row for row in waiting(config, name, None) if key_from_json(row["channel"]) == key]
    prefix = config.service.header_prefix

    def is_its(record: Found) -> bool:
        return record.key == key

    came = search(config, settings.input, is_its, LANE_ARRIVALS)
    out = search(config, [settings.output], is_its, LANE_ARRIVALS)
    no = search(config, [settings.rejects], is_its, LANE_ARRIVALS)
    reasons = {_origin(each, prefix): each.text(prefix + "reject-reason") for each in no.records}
    arrived = [(each.place, each.text("label"), each.text("epoch")) for each in came.records]
    delivered = [
        (each.text(prefix + "origin"), each.text("label"), each.text("epoch"))
        for each in out.records
        if each.header(prefix + "notice") is None
    ]
    fates, origins = lanes.matched(arrived, delivered, reasons)
    above = [
        lanes.Arrival(place, label, epoch, 0, fate, reasons.get(place, ""), link(name, place))
        for (place, label, epoch), fate in zip(arrived, fates, strict=True)
    ]
    below = [
        lanes.Delivery(
            each.place, label, each.text(prefix + "sequence"), origin, link(name, each.place)
        )
        for (_, label, _), origin, each in zip(delivered, origins, out.records, strict=False)
    ]
    return {
        "key": escaped(key),
        "code": encoded_key(key),
        "waits": [{**row, "fate": fate(settings.gap, row["since"], now)} for row in rows],
        "picture": lanes.draw(above, below, escaped(key)),
        "arrivals": list(zip(above, came.records, strict=True)),
        "looked": looked(came, out, no),
    }


def _origin(reject: Found, prefix: str) -> str:
    parts = [reject.text(f"{prefix}reject-{each}") for each in ("topic", "partition", "offset")]
    return f"{parts[0]}/{parts[1]}@{parts[2]}"


def link(name: str, place: str) -> str:
    """Return the address of a record's page."""
    return f"/p/{name}/record/{base64.urlsafe_b64encode(place.encode()).decode()}"


def looked(*searches: Search) -> str:
    """Say how much of the topics was looked at."""
    offsets = sum(each.offsets for each in searches)
    whole = all(each.is_whole for each in searches)
    return f"{offsets:,} offsets looked at" + ("" if whole else "; there was no time for the rest")


def records(
    config: Config, topic: str, key: str, header: str, label: str
) -> tuple[list[Found], str]:
    """Return the newest records of a topic, newest first, and how far back was looked.

    ``key``, as `status --blocked` shows it; ``header`` as name=value; ``label``: its text. Empty
    ones match all. ValueError where a key is none.
    """
    wanted_key = unescaped(key) if key else None
    name, _, value = header.partition("=")

    def matches(record: Found) -> bool:
        return (
            (wanted_key is None or record.key == wanted_key)
            and (not name or record.text(name) == value)
            and (not label or record.text("label") == label)
        )

    found = search(config, [topic], matches, RECORDS_SHOWN)
    newest = sorted(found.records, key=lambda each: -each.timestamp)[:RECORDS_SHOWN]
    return newest, looked(found)


def payload(data: bytes | None) -> dict[str, str]:
    """Return bytes for people: how they are shown, and the text, cut. Never run."""
    if data is None:
        return {"kind": "null", "text": ""}
    cut = f", the first {PAYLOAD_BYTES_MAX:,} of {len(data):,} bytes"
    more = cut if len(data) > PAYLOAD_BYTES_MAX else f", {len(data):,} bytes"
    part = data[:PAYLOAD_BYTES_MAX]
    try:
        if len(data) <= PAYLOAD_BYTES_MAX:
            return {"kind": "JSON" + more, "text": json.dumps(json.loads(data), indent=2)}
    except (ValueError, RecursionError):
        pass
    try:
        text = part.decode() if len(data) <= PAYLOAD_BYTES_MAX else part.decode(errors="ignore")
        if "\0" not in text:
            return {"kind": "text" + more, "text": text}
    except UnicodeDecodeError:
        pass
    return {"kind": "bytes" + more, "text": part.hex(" ", 2)}


def disorder(recorder: Recorder, name: str, share: float) -> dict[str, Any]:
    """Return how far and how late messages came, and what other settings would have given up."""
    settings = recorder.config.pipelines[name]
    totals = recorder.pipelines[name].totals
    advice = advise(totals, share)
    pictures = []
    for kind, title in ((LATE_MS, "how late messages came"), (WAITED_MS, "how long they waited")):
        *counts, _ = totals.histograms.get(kind) or [0] * (len(BOUNDS[kind]) + 2)
        names = [told_ms(bound) for bound in BOUNDS[kind]] + ["more"]
        after = getattr(getattr(settings.gap, "after", None), "ms", None)
        below = None if after is None else sum(bound < after for bound in BOUNDS[kind])
        marked = below if settings.gap.policy != "wait" else None
        pictures.append((title, charts.bars(names[1:], counts[1:], marked, title)))
    return {
        "advice": advice,
        "after": [(told_after(each), each.share) for each in advice.after_ms],
        "labels": [(each.value, each.share) for each in advice.labels],
        "best": told_after(advice.after_best) if advice.after_best else None,
        "pictures": pictures,
        "share": share,
        "policy": settings.gap,
    }


def told_ms(ms: int) -> str:
    """Return a time as short text."""
    for unit, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if ms >= unit and ms % unit == 0:
            return f"{ms // unit} {name}"
    return f"{ms} ms"


def events(config: Config, name: str, kind: str, text: str) -> dict[str, Any]:
    """Return the newest events: ``kind`` "commands" for the audit, else one event's name or all."""
    settings = config.pipelines[name]

    def matches(record: Found) -> bool:
        event = _json(record.value)
        is_command = event.get("event") in COMMAND_EVENTS
        fits = is_command if kind == "commands" else kind in ("", event.get("event"))
        return fits and (not text or text in (record.value or b"").decode(errors="replace"))

    found = search(config, [settings.events], matches, RECORDS_SHOWN)
    rows = [{**_json(each.value), "place": each.place} for each in found.records]
    rows.sort(key=lambda each: str(each.get("at", "")), reverse=True)
    return {"rows": rows[:RECORDS_SHOWN], "looked": looked(found), "kind": kind, "text": text}


def _json(value: bytes | None) -> Mapping[str, Any]:
    try:
        found = json.loads(value or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def rejects(recorder: Recorder, name: str, reason: str) -> dict[str, Any]:
    """Return the newest rejects, and how many there are of each reason."""
    config = recorder.config
    settings = config.pipelines[name]
    header = config.service.header_prefix + "reject-reason"

    def matches(record: Found) -> bool:
        return not reason or record.text(header) == reason

    found = search(config, [settings.rejects], matches, RECORDS_SHOWN)
    newest = sorted(found.records, key=lambda each: -each.timestamp)[:RECORDS_SHOWN]
    return {
        "rows": [(each, each.text(header)) for each in newest],
        "counts": sorted(recorder.pipelines[name].totals.rejected.items()),
        "reason": reason,
        "looked": looked(found),
    }


def when(timestamp_ms: int) -> str:
    """Return a record's time in UTC; the number where no calendar has it."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"


def headers(record: Found) -> Sequence[tuple[str, dict[str, str]]]:
    """Return a record's headers for people."""
    return [(name, payload(value)) for name, value in record.headers]
