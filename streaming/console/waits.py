"""Who waits, for what, and what will become of it: channels, subscribers and peers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from streaming.arrow.key_text import escaped, key_from_json
from streaming.config import Config
from streaming.console.history import Recorder
from streaming.console.values import encoded_key
from streaming.disciplines import DISCIPLINES
from streaming.disciplines.discipline import listed_in
from streaming.disciplines.waiting import WAITING_MAX
from streaming.service.checkpoint import Checkpoint

BLOCKED_SHOWN = 200
CURRENT_SECONDS_MAX, PAUSE_SECONDS = 2.0, 0.1
SETTLING = "begins with the lowest label that comes in time (labels.start)"
COMES = "goes on by itself when that comes; nothing is given up here"
_READ: dict[tuple[str, str, int | None], tuple[dict[int, str], list[dict[str, Any]]]] = {}
_READ_LOCK = threading.Lock()


def blocked(recorder: Recorder, name: str, asked: str) -> dict[str, Any]:
    """Return the channels, subscribers or peers that wait.

    ``asked``: only those in whose name this stands. ``searched``: how many were searched where
    batches did not report all, else None.
    """
    config = recorder.config
    settings = config.pipelines[name]
    key_name = DISCIPLINES[settings.discipline].key
    reports = Checkpoint.of(config, name).waiting()
    rows = _read(config, name, reports, None if asked else BLOCKED_SHOWN)
    now = time.time()
    shown = []
    for row in rows:
        key = key_from_json(row[key_name])
        if asked and asked not in escaped(key):
            continue
        shown.append(
            {
                **row,
                "key": escaped(key),
                "code": encoded_key(key),
                "waited": _waited(row["since"], now),
                "fate": fate(settings, row, now),
            }
        )
        if len(shown) == BLOCKED_SHOWN:
            break
    has_epochs = any(row.get("epoch") for row in shown)
    totals = recorder.pipelines[name].totals
    blocked, held, listed = totals.blocked, totals.held, _listed(config, name, reports)
    is_part = listed <= len(rows) < blocked
    if not asked and len(rows) < min(listed, BLOCKED_SHOWN):  # all of them; counts may be later
        blocked, held = len(rows), sum(row["held"] for row in rows)
    return {
        "rows": shown,
        "who": key_name,
        "has_epochs": has_epochs,
        "blocked": blocked,
        "held": held,
        "asked": asked,
        "searched": len(rows) if asked and is_part else None,
    }


def waiting_one(config: Config, name: str, key: bytes) -> dict[str, Any]:
    """Return whether one channel, subscriber or peer waits, and whether that is certain."""
    settings = config.pipelines[name]
    key_name = DISCIPLINES[settings.discipline].key
    reports, now = Checkpoint.of(config, name).waiting(), time.time()
    rows = _read(config, name, reports, None)
    found = [row for row in rows if key_from_json(row[key_name]) == key]
    return {
        "waits": [{**row, "fate": fate(settings, row, now)} for row in found],
        "is_certain": bool(found) or len(rows) < _listed(config, name, reports),
    }


def await_batch(config: Config, name: str, at: str) -> bool:
    """Wait until the figures are written of the batch at this time; return whether they are.

    A batch's answers are in Kafka before its figures are in the checkpoint.
    """
    checkpoint = Checkpoint.of(config, name)
    deadline = time.monotonic() + CURRENT_SECONDS_MAX
    while (seen := checkpoint.status().get("at")) is None or not _is_after(seen, at):
        if time.monotonic() > deadline:
            return False
        time.sleep(PAUSE_SECONDS)
    return True


def _is_after(seen: str, at: str) -> bool:
    return datetime.fromisoformat(seen) > datetime.fromisoformat(at)


def oldest_wait(config: Config, name: str, now: float) -> float | None:
    """Return the longest wait (s); None if nothing waits."""
    rows = waiting(config, name, 1)
    return _waited(rows[0]["since"], now) if rows else None


def waiting(config: Config, name: str, most: int | None) -> list[dict[str, Any]]:
    """Return who waits, longest first, as `status --blocked` has it."""
    return _read(config, name, Checkpoint.of(config, name).waiting(), most)


def _read(
    config: Config, name: str, reports: dict[int, str], most: int | None
) -> list[dict[str, Any]]:
    """Return who waits by what shards reported.

    What was read last is kept: ten thousand channels take a third of a second, and several people
    may look for theirs.
    """
    settings = config.pipelines[name]
    asked = (config.service.checkpoint, name, most)
    with _READ_LOCK:
        kept = _READ.get(asked)
    if kept is not None and kept[0] == reports:
        return kept[1]
    rows = DISCIPLINES[settings.discipline].waiting(settings, reports.values(), most)
    with _READ_LOCK:
        _READ[asked] = (reports, rows)
    return rows


def _listed(config: Config, name: str, reports: dict[int, str]) -> int:
    """Return how many of those that wait each shard reports at least, if it has them."""
    if DISCIPLINES[config.pipelines[name].discipline].all_waiting is None:
        return WAITING_MAX
    return listed_in(reports.values())


def fate(settings: Any, row: Mapping[str, Any], now: float) -> str:
    """Say what will become of one that waits: what the gap policy will do, and when."""
    if not hasattr(settings, "gap"):
        return COMES
    gaps = {rule.channel: rule.gap for rule in settings.rules}
    gap = gaps.get(row.get("rule")) or settings.gap
    if row["next"] is None:
        return SETTLING
    after = getattr(gap, "after", None)
    if gap.policy == "wait":
        return "goes on waiting"
    seconds_left = getattr(after, "ms", None)
    if seconds_left is None:
        return f"policy {gap.policy}, by a time that sets itself"
    seconds_left = seconds_left / 1000 - _waited(row["since"], now)
    what = "is given up" if gap.policy == "skip" else "the pipeline stops"
    return f"{what} in {seconds_left:,.0f} s" if seconds_left > 0 else f"{what} with the next batch"


def _waited(since: str, now: float) -> float:
    return max(0.0, now - datetime.fromisoformat(since).timestamp())
