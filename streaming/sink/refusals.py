"""Records that Kafka refuses for good: sending them again cannot help.

Kafka names the records of a batch that it refuses (KIP-467), or sending parts of the batch shows
them. What becomes of them is decided by the operators, in another run of the batch
(`streaming.disciplines.refused`); the transaction in which it turned out is aborted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import google_crc32c
from kafka.errors import (
    InvalidRecordError,
    InvalidTimestampError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    for_code,
)

from streaming.disciplines.refused import Refusal
from streaming.wire.record_batch import RecordBatch
from streaming.wire.splitting import halves, records_in, taken

TOO_LARGE, REFUSED = "too-large", "refused"
FOR_GOOD = {
    MessageSizeTooLargeError.errno: TOO_LARGE,
    RecordListTooLargeError.errno: TOO_LARGE,
    InvalidTimestampError.errno: REFUSED,
    InvalidRecordError.errno: REFUSED,
    PolicyViolationError.errno: REFUSED,
}
"""Codes of errors, each with the reason for which a record is rejected."""
NAMES = {MessageSizeTooLargeError.errno: "MESSAGE_TOO_LARGE"}
"""Kafka's own, where kafka-python has another."""


class RecordsRefused(Exception):  # noqa: N818  (no fault of ours: what is to be decided)
    """Kafka refused records for good; what was written with them is aborted."""

    def __init__(self, refusals: list[Refusal]) -> None:
        super().__init__(refusals)
        self.refusals = refusals


def sorted_out(
    topic: str, batch: RecordBatch, partition: Any, *, in_order: bool
) -> tuple[list[Refusal], list[RecordBatch]]:
    """Return the records of a refused batch that are known to be refused, and what to send again.

    ``partition``: what the broker answered about it. ``in_order``: nothing may be written behind a
    refused record, so only a batch of one record is known to be refused.
    """
    named = {each.batch_index: each.batch_index_error_message for each in partition.record_errors}
    records = records_in(batch)
    if batch.count == 1:
        said = named.get(0) or partition.error_message
        return [_refusal(topic, records.to_pylist()[0], partition.error_code, said)], []
    if not named:
        return [], halves(batch)
    if in_order:
        first = min(named)
        spans = (range(first), range(first, first + 1), range(first + 1, batch.count))
        return [], [smaller for rows in spans for smaller in taken(batch, records, rows)]
    rows = records.take(sorted(named)).to_pylist()
    found = [
        _refusal(topic, row, partition.error_code, named[at] or partition.error_message)
        for at, row in zip(sorted(named), rows, strict=True)
    ]
    return found, [*taken(batch, records, [at for at in range(batch.count) if at not in named])]


def _refusal(topic: str, record: Mapping[str, Any], code: int, said: str | None) -> Refusal:
    name = NAMES.get(code, for_code(code).message)
    return Refusal(
        topic,
        FOR_GOOD[code],
        f"{name}: {said}" if said else name,
        record["key"],
        {each["key"]: each["value"] for each in record["headers"] or ()},
        record["timestamp"],
        google_crc32c.value(record["value"] or b""),
    )
