"""Notices: records in the streams of subscribers about changes of their groups.

A notice has a null value and the headers `notice` (`removed`, `joined` or `left`), `detail` (the
event of the change, as JSON), `sequence` and `incarnation`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any

import numpy as np
import pyarrow as pa

from sequencer.ragged import Ints
from streaming.arrow.schemas import HEADERS
from streaming.disciplines.groups.commands import ONE_MEMBER

REMOVED, JOINED, LEFT = WORDS = ("removed", "joined", "left")
NAMES_MAX = 100
"""Names of a list in `detail`."""


def detail(
    change: Mapping[str, Any], op: str, entered: Iterable[str], left: Iterable[str], count: int
) -> bytes:
    """Return the JSON of a change: its event, with who joined and left in place of all members."""
    fields = {name: value for name, value in change.items() if name != "members"}
    if op not in (*ONE_MEMBER, "remove"):
        for word, names in ((JOINED, list(entered)), (LEFT, list(left))):
            fields[word] = nsmallest(NAMES_MAX, names)
            fields[f"{word}_count"] = len(names)
        fields["count"] = count
    return json.dumps(fields, ensure_ascii=False).encode()


def words(op: str, who: Ints, entered: Ints, left: Ints) -> Ints:
    """Return the word (its place in WORDS) for each subscriber that gets a notice of a change."""
    if op == "remove":
        return np.zeros(len(who), np.int64)
    here = WORDS.index(JOINED) if len(entered) else WORDS.index(LEFT)
    return np.where(np.isin(who, left), WORDS.index(LEFT), here)


def notices(
    names: Sequence[str], word: Ints, text: bytes, timestamp: int, numbers: Mapping[str, Ints]
) -> pa.Table:
    """Return the records for subscribers (names), for the sink."""
    place = pa.array(np.arange(len(names), dtype=np.int32))
    only = pa.array(np.zeros(len(names), np.int32))
    keys = pa.array([name.encode() for name in names], pa.binary())
    shown = pa.array([each.encode() for each in WORDS], pa.binary())
    columns = {
        "key": pa.DictionaryArray.from_arrays(place, keys),
        "value": pa.nulls(len(names), pa.binary()),
        "headers": pa.nulls(len(names), HEADERS),
        "timestamp": pa.array(np.full(len(names), timestamp, np.int64)),
        "notice": pa.DictionaryArray.from_arrays(pa.array(word.astype(np.int32)), shown),
        "detail": pa.DictionaryArray.from_arrays(only, pa.array([text], pa.binary())),
    }
    return pa.table(columns | {name: pa.array(values) for name, values in numbers.items()})
