"""Who waits for what, of shards that send each other messages: beside the checkpoint's status.

A shard reports it only in batches in which it changed. (Channels report more:
`streaming.disciplines.channels.waiting`.)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from streaming.arrow.key_text import key_from_json, key_to_json
from streaming.arrow.output import at

WAITING_MAX = 200
"""Subscribers or peers that one shard reports: those that have waited longest."""


class Wait(NamedTuple):
    """Since when (ms) somebody waits and gets nothing, for what, and how many messages behind it.

    Where messages always come, somebody always waits: only who gets none waits for long.
    """

    since_ms: int
    awaited: str
    held: int


def waiting_report(waiting: Mapping[bytes, Wait]) -> str:
    """Return those that have waited longest, as text, by their keys."""
    longest = sorted(waiting.items(), key=lambda each: (each[1].since_ms, each[0]))[:WAITING_MAX]
    return json.dumps([[key_to_json(key), *wait] for key, wait in longest])


def describe_waiting(
    texts: Iterable[str], key: str, most: int | None = None
) -> list[dict[str, Any]]:
    """Return what shards reported, in one list, longest first (``most`` of them).

    ``key``: what the keys are, "subscriber" or "peer". ``next``: what is waited for.
    """
    rows = [
        (since_ms, key_from_json(name), *more)
        for text in texts
        for name, since_ms, *more in json.loads(text)
    ]
    rows.sort(key=itemgetter(0, 1))
    return [
        {key: key_to_json(name), "next": awaited, "since": at(since_ms), "held": held}
        for since_ms, name, awaited, held in rows[:most]
    ]
