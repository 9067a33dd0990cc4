"""Notices in the streams of channels and groups: records without a value that tell of an event."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from streaming.verify.added import number, tail
from streaming.verify.commands import is_text
from streaming.verify.records import Record

NAMES = ("notice", "detail", "sequence", "incarnation")
NAMES_OF_AN_END = ("from", "destination", "timestamp", "notice", "sequence", "incarnation")
"""The headers of the notice of a node's end, in multicasts."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What a notice says: its word, the event it has as detail, its numbers (-1 if unreadable)."""

    word: str
    detail: Mapping[str, Any]
    sequence: int
    incarnation: int


def read_notice(record: Record, prefix: str, words: Collection[str]) -> Notice | None:
    """Return what a record says if it is a notice with one of these words; else None."""
    values = tail(record, prefix, NAMES)
    if values is None or record.value is not None or len(record.headers) != len(NAMES):
        return None
    word, detail, sequence, incarnation = values
    try:
        fields = json.loads(detail or b"")
    except (ValueError, RecursionError):
        return None
    name = (word or b"").decode(errors="replace")
    if name not in words or not isinstance(fields, dict) or not is_text(fields):
        return None
    return Notice(name, fields, number(sequence), number(incarnation))


def is_notice(record: Record, prefix: str) -> bool:
    """Return whether a record is a notice, of any discipline."""
    names = [name for name, _ in record.headers]
    forms = ([prefix + name for name in each] for each in (NAMES, NAMES_OF_AN_END))
    return record.value is None and names in forms
