"""Answers to commands, picked out of what a batch writes to the events topic: for the log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streaming.arrow.columns import flat
from streaming.arrow.ipc import from_ipc
from streaming.arrow.schemas import is_encoded
from streaming.arrow.totals import ANSWERS_MAX

BEGIN = b'{"event": "command-'
"""How `streaming.arrow.output.answer` writes an answer."""

Answer = dict[str, Any]


def noting(rows: Iterable[dict[str, Any]], events: str, found: list[Answer]) -> Iterator[Any]:
    """Yield rows of OUTPUT; add the first answers on the topic ``events`` to ``found``."""
    for row in rows:
        if row["topic"] == events and len(found) < ANSWERS_MAX:
            found += answers_in(from_ipc(row["rows"]))[: ANSWERS_MAX - len(found)]
        yield row


def answers_in(events: pa.Table) -> list[Answer]:
    """Return the answers among events (key, value, headers); of encoded ones, shards report."""
    if is_encoded(events):
        return []
    values = flat(events["value"])
    return [json.loads(each) for each in values.filter(pc.starts_with(values, BEGIN)).to_pylist()]
