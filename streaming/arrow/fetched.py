"""Record batches as a broker gives them: whose records are wanted, checked and decompressed."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import google_crc32c
import pyarrow as pa

from streaming.arrow.compression import COMPRESSIONS, decompressed
from streaming.arrow.record_batch import CHECKED, TRANSACTIONAL
from streaming.arrow.record_batch import HEAD as FRAME
from streaming.arrow.record_columns import Body, Told, columns, varint
from streaming.arrow.schemas import NO_TIMESTAMP, RECORD, TIMESTAMP_TYPE

HEAD = struct.Struct(FRAME.format + CHECKED.format.removeprefix(">"))
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset's delta, first and latest
timestamp, producer id, epoch, sequence, count."""
OLD_HEAD = struct.Struct(">qiIb")
"""Of formats 0 and 1: offset (of the last record within), length, CRC, magic."""
BEFORE_LENGTH = 12
CRC, CHECKED_FROM = FRAME.size - 4, FRAME.size
"""Where the checksum is, and where begins what it covers."""

COMPRESSION, APPENDED, CONTROL = 0x07, 0x08, 0x20
ABORT = 0


class Unreadable(Exception):  # noqa: N818  (says what the bytes are)
    """Bytes that are not what they say: a topic's number, a partition, an offset, and why."""


class Head(NamedTuple):
    """One batch in a partition's bytes: where it lies, and what its header says.

    Of formats 0 and 1 ``first`` is 0, as nothing says it.
    """

    begin: int
    end: int
    first: int
    last: int
    attributes: int
    first_ms: int
    latest_ms: int
    producer: int
    records: int
    magic: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a broker gave of one partition; wanted are offsets from ``first`` to before ``stop``.

    ``topic`` is a number. ``aborted``: producer id and first offset of each aborted transaction.
    """

    topic: int
    partition: int
    first: int
    stop: int
    data: bytes
    heads: Sequence[Head]
    aborted: Sequence[tuple[int, int]] = ()


def heads_in(data: bytes) -> list[Head]:
    """The whole batches in a partition's bytes; the last one may be cut off."""
    heads = []
    begin, size = 0, len(data)
    while begin + OLD_HEAD.size <= size:
        offset, length, _, magic = OLD_HEAD.unpack_from(data, begin)
        end = begin + BEFORE_LENGTH + length
        if end > size:
            break
        if magic < 2:
            heads.append(Head(begin, end, 0, offset, 0, 0, 0, 0, 1, magic))
        else:
            _, _, _, _, _, attributes, delta, first_ms, latest_ms, producer, _, _, records = (
                HEAD.unpack_from(data, begin)
            )
            last = offset + delta
            heads.append(
                Head(
                    *(begin, end, offset, last, attributes),
                    *(first_ms, latest_ms, producer, records, magic),
                )
            )
        begin = end
    return heads


def tables(
    parts: Iterable[Fetched], bytes_max: int, schema: pa.Schema = RECORD
) -> Iterator[pa.Table]:
    """The wanted records as rows of ``schema``, by partition as given, in order of offset.

    It is RECORD or TYPED_RECORD.

    A table ends with the batch that reaches so many bytes, or with an answer's end when it has half
    of them: the next one lies elsewhere in memory. Raises Unreadable.
    """
    bodies: list[Body] = []
    told: list[Told] = []
    size = 0
    for part in parts:
        for head in _committed(part):
            if head.magic < 2:
                if bodies:
                    yield _records_of(bodies, told, schema)
                    bodies, told, size = [], [], 0
                yield _old_records(part, head, schema)
                continue
            body = body_of(part, head)
            bodies.append(body)
            own_ms = head.latest_ms if head.attributes & APPENDED else -1
            told.append(
                (
                    *(head.records, part.topic, part.partition, head.first, head.first_ms),
                    *(own_ms, part.first, part.stop),
                )
            )
            size += body.size
            if size >= bytes_max:
                yield _records_of(bodies, told, schema)
                bodies, told, size = [], [], 0
        if bodies and size >= bytes_max // 2:
            yield _records_of(bodies, told, schema)
            bodies, told, size = [], [], 0
    if bodies:
        yield _records_of(bodies, told, schema)


def _committed(part: Fetched) -> Iterator[Head]:
    """Batches with wanted records: no markers, and nothing of aborted transactions (KIP-98)."""
    waiting = sorted(part.aborted, key=lambda each: each[1], reverse=True)
    aborted: set[int] = set()
    for head in part.heads:
        if head.first >= part.stop:
            return
        if head.magic >= 2:
            _check(part, head)  # before the header says that the batch is not wanted
        while waiting and waiting[-1][1] <= head.last:
            aborted.add(waiting.pop()[0])
        if head.attributes & CONTROL:
            if head.records and _is_abort(part.data, head):
                aborted.discard(head.producer)
        elif (
            head.records
            and head.last >= part.first
            and not (head.attributes & TRANSACTIONAL and head.producer in aborted)
        ):
            yield head


def _is_abort(data: bytes, head: Head) -> bool:
    """A marker's record: its key is a version and the kind (int16 each)."""
    at = head.begin + HEAD.size
    _, at = varint(data, at)  # size
    at += 1  # attributes
    for _ in ("timestamp", "offset", "the key's size"):
        _, at = varint(data, at)
    (kind,) = struct.unpack_from(">h", data, at + 2)
    return bool(kind == ABORT)


def _check(part: Fetched, head: Head) -> None:
    checked = head.begin + CHECKED_FROM
    (crc,) = struct.unpack_from(">I", part.data, head.begin + CRC)
    if google_crc32c.value(pa.py_buffer(part.data).slice(checked, head.end - checked)) != crc:
        raise Unreadable(part.topic, part.partition, head.first, "its checksum is another")


def body_of(part: Fetched, head: Head) -> Body:
    """A batch's records, decompressed."""
    begin = head.begin + HEAD.size
    compression = head.attributes & COMPRESSION
    if not compression:
        return Body(part.data, begin, head.end - begin)
    try:
        body = decompressed(memoryview(part.data)[begin : head.end], COMPRESSIONS[compression])
    except (RuntimeError, OSError, ValueError, IndexError) as error:
        why = f"it cannot be decompressed ({error})"
        raise Unreadable(part.topic, part.partition, head.first, why) from error
    return Body(body, 0, len(body))


def _records_of(bodies: Sequence[Body], told: Sequence[Told], schema: pa.Schema) -> pa.Table:
    """The records of some batches; ``told`` says of each what its records do not."""
    try:
        return columns(bodies, told, schema)
    except (IndexError, ValueError, OverflowError) as error:
        _, topic, partition, first, *_ = told[0]
        why = f"from there on records are not what they say ({error})"
        raise Unreadable(topic, partition, first, why) from error


def _old_records(part: Fetched, head: Head, schema: pa.Schema) -> pa.Table:
    """What kafka-python reads in a message of format 0 or 1, which only old segments have."""
    from kafka.record.legacy_records import LegacyRecordBatch  # noqa: PLC0415

    rows = [
        {
            "topic": part.topic,
            "partition": part.partition,
            "offset": record.offset,
            "timestamp": -1 if record.timestamp is None else record.timestamp,
            "key": record.key,
            "value": record.value,
            TIMESTAMP_TYPE.name: _timestamp_type(record),
        }
        for record in LegacyRecordBatch(part.data[head.begin : head.end], head.magic)
        if part.first <= record.offset < part.stop
    ]
    return pa.Table.from_pylist(rows, schema)


def _timestamp_type(record: Any) -> int:
    return NO_TIMESTAMP if record.timestamp is None else int(record.timestamp_type)
