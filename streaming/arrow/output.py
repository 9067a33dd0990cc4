"""Operators' output for the sink: for each shard and topic a table of records to write.

A table has the columns `key`, `value`, `headers` (null: none), and may have `timestamp` (ms; else
Kafka's own) and `partition` (else that of the key). Every other column is a header to add behind
the record's own, named without the configured prefix; a null adds none. A header with a column's
name is prefixed with "header:". Columns may be dictionaries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from streaming.arrow.columns import flat
from streaming.arrow.ipc import to_ipc
from streaming.arrow.schemas import HEADERS, columns_in, is_compressed
from streaming.arrow.totals import Totals

if TYPE_CHECKING:
    import pandas as pd

OUTPUT = "shard int, topic string, rows binary, totals string, wrote_before boolean, read long"
"""One row (several for large tables) for each topic that a shard writes to. Only the shard's last
row has totals; it has no topic if there are no records for it. ``wrote_before``: whether an earlier
batch of the shard wrote anything; ``read``: how many records of the batch the shard has."""

ROW_BYTES_MAX = 256 * 2**20
ROWS_AT_ONCE = 5
"""Rows that leave a worker together (`streaming.spark.worker_daemon.OUTPUT_ROWS_MAX`)."""
PLACE = ("topic", "partition", "offset")
REJECT = ("key", "value", "headers", "timestamp")

SUMMED = ("channels", "given_up")
"""Fields of answers that are counts, and are added up over shards."""

ASKED = (
    *("event", "id", "at", "command", "topic", "partition", "offset"),
    *("op", "channel", "blocked", "group", "node", "member", "members", "owner", "peer"),
    *("epoch", "from", "to", "label", "if_version", "dry_run", "by", "why"),
)
ANSWERED = {name: place for place, name in enumerate(ASKED)}
"""The order of an answer's fields in every discipline; the command's results follow."""

Write = tuple[str, pa.Table]
"""A topic and the records for it."""

Event = tuple[bytes, dict[str, Any]]
"""An event's key, and the fields of its JSON."""


def output_rows(shard: int, writes: Iterable[Write], totals: Totals) -> Iterator[pd.DataFrame]:
    """Yield a shard's rows of OUTPUT one by one: the sink sends the first while others are made.

    Counts the batch in ``totals`` if it writes anything.
    """
    wrote_before = totals.batches > 0
    waiting: list[tuple[str, bytes]] = []
    for topic, rows in writes:
        for part in _parts(rows):
            if len(waiting) == ROWS_AT_ONCE:
                yield _frame(shard, waiting, wrote_before=wrote_before)
                waiting = []
            waiting.append((topic, _blob(part)))
    totals.batches += bool(waiting)
    last = waiting or [("", b"")]
    yield _frame(shard, last, totals.to_json(), wrote_before=wrote_before)


def output_rows_of(shard: int, write: Write, *, wrote_before: bool) -> Iterator[pd.DataFrame]:
    """Yield one write as rows of OUTPUT without totals; none if it is empty."""
    topic, records = write
    for part in _parts(records):
        yield output_row(shard, topic, _blob(part), wrote_before=wrote_before)


def output_row(
    shard: int, topic: str = "", rows: bytes = b"", totals: str = "", *, wrote_before: bool
) -> pd.DataFrame:
    """Return one row of OUTPUT."""
    return _frame(shard, [(topic, rows)], totals, wrote_before=wrote_before)


def _frame(
    shard: int, rows: Sequence[tuple[str, bytes]], totals: str = "", *, wrote_before: bool
) -> pd.DataFrame:
    """Return rows of OUTPUT, the last of which has ``totals``."""
    import pandas as pd  # noqa: PLC0415  (half a second to import, and the sink needs none)

    return pd.DataFrame(
        {
            "shard": [shard] * len(rows),
            "topic": [topic for topic, _ in rows],
            "rows": [blob for _, blob in rows],
            "totals": [*[""] * (len(rows) - 1), totals],
            "wrote_before": [wrote_before] * len(rows),
        }
    )


def _blob(rows: pa.Table) -> bytes:
    return to_ipc(rows, as_it_is=is_compressed(rows))


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    """Split the records into tables well below the 2 GiB limit of a row."""
    size = -(-len(rows) // (rows.nbytes // ROW_BYTES_MAX + 1))
    for first in range(0, len(rows), size or 1):
        yield rows.slice(first, size)


def rejects(
    records: pa.Table,
    reasons: pa.Array,
    inputs: Sequence[str],
    details: pa.Array | None = None,
    places: Mapping[str, pa.Array] | None = None,
) -> pa.Table:
    """Return the rejected records with their reasons; those without a key go as with an empty one.

    ``records`` also have `topic` (its number in ``inputs``), `partition` and `offset`. ``details``:
    texts, or null. ``places``: further columns, between these.
    """
    topics = pa.array(inputs, pa.string()).take(records["topic"].combine_chunks())
    added = {
        "reject-reason": reasons,
        "reject-topic": topics,
        "reject-partition": records["partition"],
        "reject-offset": records["offset"],
        **(places or {}),
        "reject-detail": pa.nulls(len(records)) if details is None else details,
    }
    added["reject-detail"] = added["reject-detail"].cast(pa.string())
    names = columns_in(records.schema, REJECT)
    return pa.table({**{name: records[name] for name in names}, **added})


def with_origin(rows: pa.Table, records: pa.Table, inputs: Sequence[str]) -> pa.Table:
    """Return rows with the header `origin`, the place of their records; unchanged without inputs.

    The header is null if a record has no place or is a command (its topic is not an input).
    """
    if not inputs:
        return rows
    number = flat(records["topic"])
    is_input = pc.less(number, len(inputs))
    topics = pa.array(inputs, pa.string()).take(pc.if_else(is_input, number, None))
    partition, offset = (flat(records[name]).cast(pa.string()) for name in PLACE[1:])
    places = pc.binary_join_element_wise(topics, "/", partition, "@", offset, "")
    return rows.append_column("origin", places)


def events(happened: Sequence[Event]) -> pa.Table:
    """Return events as records."""
    values = [json.dumps(value, ensure_ascii=False).encode() for _, value in happened]
    return pa.table(
        {
            "key": pa.array([key for key, _ in happened], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.nulls(len(happened), HEADERS),
        }
    )


def event(pipeline: str, kind: str, place: Mapping[str, Any], now_ms: int) -> dict[str, Any]:
    """Return the first fields of an event about a record at a place (topic, partition, offset)."""
    where = f"{place['topic']}:{place['partition']}:{place['offset']}"
    return {"event": kind, "id": f"{pipeline}:{kind}:{where}", "at": at(now_ms)}


def answer(
    pipeline: str,
    place: Mapping[str, Any],
    command_id: str | None,
    now_ms: int,
    more: Mapping[str, Any],
) -> Event:
    """Return the event that answers the command at a place; a reason in ``more`` means refused."""
    kind = "command-refused" if "reason" in more else "command-done"
    begin = event(pipeline, "command", place, now_ms)
    fields = {**begin, "event": kind, "command": command_id, **place, **more}
    return (command_id or "").encode(), _in_order(fields)


def together(parts: Iterable[Mapping[str, Any]]) -> list[Event]:
    """Merge the shards' parts of answers to commands that concern all shards.

    Counts are added up; the time is that of the latest part.
    """
    answers: dict[str, dict[str, Any]] = {}
    for part in parts:
        before = answers.get(part["id"], {})
        counts = {name: before.get(name, 0) + part[name] for name in SUMMED if name in part}
        fields = {**part, **counts, "at": max(part["at"], before.get("at", ""))}
        answers[part["id"]] = _in_order(fields)
    return [((each["command"] or "").encode(), each) for _, each in sorted(answers.items())]


def _in_order(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with its fields in the order of ANSWERED, followed by the others."""
    last = len(ANSWERED)
    return dict(sorted(answer.items(), key=lambda field: ANSWERED.get(field[0], last)))


def at(now_ms: int) -> str:
    """Return a batch's time in the form of events (RFC 3339)."""
    text = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
