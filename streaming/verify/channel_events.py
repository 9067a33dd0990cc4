"""Events of channels: each can be read, comes once, and gaps of one epoch do not overlap."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from streaming.arrow.key_text import escaped, key_from_json
from streaming.verify.channel_readings import Judging
from streaming.verify.commands import DONE, REFUSED
from streaming.verify.records import Record

NUMBERS = {
    "gap": ("epoch", "incarnation", "count"),
    "started": ("epoch", "incarnation"),
    "retired": ("incarnation",),
}
"""Events that the judge rests on, and the numbers that it needs of them."""


def read_event(record: Record) -> dict[str, Any] | None:
    """Return the event that a record is; None where it is none, or lacks what is judged."""
    try:
        event = json.loads(record.value or b"")
        if "channel" in event:
            key_from_json(event["channel"])
        kind = event["event"]
        fields = [event[name] for name in NUMBERS.get(kind, ())]
        texts = [kind, event["id"]]
        if fields:
            event["channel"]
        if kind == "gap":
            texts.append(event["reason"])
            event["from"], event["to"]
        elif kind == "started":
            event["label"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    are_numbers = all(type(each) is int and each >= 0 for each in fields)
    return event if are_numbers and all(isinstance(each, str) for each in texts) else None


def judge_events(work: Judging) -> None:
    """Find events that come again, and gaps that do not end where they say, or overlap.

    Answers to commands are judged with these.
    """
    verdict, seen = work.verdict, dict[str, dict[str, Any]]()
    for event in work.material.events:
        if event["event"] in (DONE, REFUSED) or "channel" not in event:
            continue
        before = seen.setdefault(event["id"], event)
        if before is not event and not (work.settings.repeats_allowed and before == event):
            verdict.find("event-repeat", f"event {event['id']} was there before")
        elif event["event"] == "gap" and not _ends_right(work, event):
            what = f"event {event['id']}: from {event['from']} to {event['to']}"
            verdict.find("wrong-event", f"{what} are not {event['count']} labels")
    for (channel, _, epoch), ranges in work.gaps.items():
        for (_, stop), (first, _) in pairwise(sorted(ranges)):
            if first < stop and not work.settings.repeats_allowed:
                label = work.settings.labels.at(first)
                what = f"label {label} (epoch {epoch}) of key {escaped(channel)}"
                verdict.find("wrong-event", f"{what} was given up by two events")


def _ends_right(work: Judging, event: dict[str, Any]) -> bool:
    """Custom labels are passed over: finding one takes a search."""
    labels = work.settings.labels
    if labels.searched:
        return True
    first, stop = (labels.position(event[name]) for name in ("from", "to"))
    count = stop - first - event["count"]
    return first >= 0 and stop >= 0 and (count % labels.cycle if labels.cycle else count) == 0
