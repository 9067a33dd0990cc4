"""Record batches in a broker's answer: select the wanted ones, check and decompress them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import google_crc32c
import pyarrow as pa

from streaming.arrow.schemas import RECORD, TIMESTAMP_TYPE
from streaming.wire import old_messages
from streaming.wire.compression import COMPRESSIONS
from streaming.wire.decompression import decompressed
from streaming.wire.old_messages import BEFORE_LENGTH
from streaming.wire.record_batch import CHECKED, TRANSACTIONAL
from streaming.wire.record_batch import HEAD as FRAME
from streaming.wire.record_columns import NO_OWN_MS, Body, Omitted, columns, varint

HEAD = struct.Struct(FRAME.format + CHECKED.format.removeprefix(">"))
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset's delta, first and latest
timestamp, producer id, epoch, sequence, count."""
CRC, CHECKED_FROM = FRAME.size - 4, FRAME.size
"""Positions of the checksum, and of the first byte that it covers."""

COMPRESSION, APPENDED, CONTROL = 0x07, 0x08, 0x20
ABORT = 0

LENGTH_MIN = {**dict(enumerate(old_messages.LENGTH_MIN)), 2: HEAD.size - BEFORE_LENGTH}
"""The least size of a batch or message, by its format."""
RECORD_BYTES_MIN = 7
"""The least bytes of a record: size, attributes, two deltas, two sizes, number of headers."""
NONSENSE = (ValueError, IndexError, OverflowError, struct.error)
"""Errors that decoders raise on damaged bytes."""


class Damaged(ValueError):  # noqa: N818  (says what the bytes are)
    """A partition's bytes are no record batches from ``offset`` on; ``why`` says what is wrong."""

    def __init__(self, offset: int, why: object) -> None:
        super().__init__(offset, why)
        self.offset, self.why = offset, why


class Unreadable(Exception):  # noqa: N818  (likewise)
    """Damaged bytes with their topic's number, partition and offset, and the reason."""


class Head(NamedTuple):
    """One batch in a partition's bytes: its position and its header.

    Formats 0 and 1 do not state the first offset; ``first`` is then the least possible one.
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
    """A broker's answer for one partition; wanted are offsets from ``first`` to before ``stop``.

    ``topic`` is a number. ``aborted``: producer id and first offset of each aborted transaction.
    """

    topic: int
    partition: int
    first: int
    stop: int
    data: bytes
    heads: Sequence[Head]
    aborted: Sequence[tuple[int, int]] = ()


def fetched(
    place: tuple[int, int],
    wanted: tuple[int, int],
    data: bytes,
    aborted: Sequence[tuple[int, int]] = (),
) -> Fetched:
    """Return the wanted batches in a broker's answer for a place (topic, partition).

    Raises Unreadable if the bytes are not record batches that reach the first wanted offset.
    """
    first, stop = wanted
    try:
        heads = heads_in(data)
    except Damaged as error:
        raise Unreadable(*place, max(error.offset, first), error.why) from error
    if not heads:
        raise Unreadable(*place, first, f"it is longer than the {len(data):,} bytes of the answer")
    if heads[-1].last < first:
        raise Unreadable(*place, first, f"the answer ends with offset {heads[-1].last}")
    return Fetched(*place, first, stop, data, heads, aborted)


def heads_in(data: bytes) -> list[Head]:
    """Return the complete batches in a partition's bytes; the last may be cut. Raises Damaged."""
    heads: list[Head] = []
    begin, size, after = 0, len(data), 0
    while begin + old_messages.HEAD.size <= size:
        offset, length, _, magic = old_messages.HEAD.unpack_from(data, begin)
        if magic not in LENGTH_MIN or length < LENGTH_MIN[magic]:
            raise Damaged(after, f"format {magic} and a length of {length:,} bytes cannot be")
        end = begin + BEFORE_LENGTH + length
        if end > size:
            break
        if magic < 2:
            head = Head(begin, end, after, offset, 0, 0, 0, 0, 1, magic)
        else:
            head = _head(data, begin, end)
        if not after <= head.first <= head.last:
            raise Damaged(after, f"it claims to have offsets {head.first} to {head.last}")
        heads.append(head)
        begin, after = end, head.last + 1
    return heads


def cut_size(part: Fetched) -> int:
    """Bytes of the batch behind the complete ones, which the answer cuts; 0 if it has none."""
    end = part.heads[-1].end
    if end + old_messages.HEAD.size > len(part.data):
        return 0
    _, length, *_ = old_messages.HEAD.unpack_from(part.data, end)
    return BEFORE_LENGTH + int(length)


def _head(data: bytes, begin: int, end: int) -> Head:
    first, _, _, _, _, attributes, delta, first_ms, latest_ms, producer, _, _, records = (
        HEAD.unpack_from(data, begin)
    )
    return Head(
        *(begin, end, first, first + delta, attributes),
        *(first_ms, latest_ms, producer, records, 2),
    )


def tables(
    parts: Iterable[Fetched], bytes_max: int, schema: pa.Schema = RECORD
) -> Iterator[pa.Table]:
    """Yield the wanted records as rows of ``schema`` (RECORD or TYPED_RECORD), in order of offset.

    Partitions keep the order of ``parts``. A table ends with the record batch that reaches
    ``bytes_max``, or with an answer's end once it has half of that: the next answer lies elsewhere
    in memory. Raises Unreadable.
    """
    bodies: list[Body] = []
    omitted: list[Omitted] = []
    size = 0
    for part in parts:
        for head in _committed(part):
            if head.magic < 2:
                if bodies:
                    yield _records_of(bodies, omitted, schema)
                    bodies, omitted, size = [], [], 0
                yield _old_records(part, head, schema)
                continue
            body = body_of(part, head)
            bodies.append(body)
            own_ms = head.latest_ms if head.attributes & APPENDED else NO_OWN_MS
            omitted.append(
                (
                    *(head.records, part.topic, part.partition, head.first, head.first_ms),
                    *(own_ms, part.first, part.stop),
                )
            )
            size += body.size
            if size >= bytes_max:
                yield _records_of(bodies, omitted, schema)
                bodies, omitted, size = [], [], 0
        if bodies and size >= bytes_max // 2:
            yield _records_of(bodies, omitted, schema)
            bodies, omitted, size = [], [], 0
    if bodies:
        yield _records_of(bodies, omitted, schema)


def _committed(part: Fetched) -> Iterator[Head]:
    """Yield the batches with wanted records, without markers and aborted transactions (KIP-98)."""
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
            if head.records and _is_abort(part, head):
                aborted.discard(head.producer)
        elif (
            head.records
            and head.last >= part.first
            and not (head.attributes & TRANSACTIONAL and head.producer in aborted)
        ):
            yield head


def _is_abort(part: Fetched, head: Head) -> bool:
    """Return whether a marker aborts: its record's key is a version and the kind (int16 each)."""
    at = head.begin + HEAD.size
    try:
        _, at = varint(part.data, at)  # size
        at += 1  # attributes
        for _ in ("timestamp", "offset", "the key's size"):
            _, at = varint(part.data, at)
        (kind,) = struct.unpack_from(">h", part.data, at + 2)
    except NONSENSE as error:
        raise _unreadable(part, head, f"it is not a valid transaction marker ({error})") from error
    return bool(kind == ABORT)


def _check(part: Fetched, head: Head) -> None:
    checked = head.begin + CHECKED_FROM
    (crc,) = struct.unpack_from(">I", part.data, head.begin + CRC)
    if google_crc32c.value(pa.py_buffer(part.data).slice(checked, head.end - checked)) != crc:
        raise _unreadable(part, head, "its checksum does not match")


def body_of(part: Fetched, head: Head) -> Body:
    """Return a batch's records, decompressed."""
    begin = head.begin + HEAD.size
    compression = head.attributes & COMPRESSION
    if compression == 0:
        body = Body(part.data, begin, head.end - begin)
    elif compression < len(COMPRESSIONS):
        packed = memoryview(part.data)[begin : head.end]
        try:
            data = decompressed(packed, COMPRESSIONS[compression])
        except NONSENSE as error:
            raise _unreadable(part, head, f"it cannot be decompressed ({error})") from error
        body = Body(data, 0, len(data))
    else:
        raise _unreadable(part, head, f"compression {compression} is unknown")
    if not 0 <= head.records <= body.size // RECORD_BYTES_MIN:
        what = f"it claims to have {head.records:,} records in {body.size:,} bytes"
        raise _unreadable(part, head, what)
    return body


def _records_of(bodies: Sequence[Body], omitted: Sequence[Omitted], schema: pa.Schema) -> pa.Table:
    """Return the records of some batches; ``omitted[i]``: the fields of batch i that they omit."""
    try:
        return columns(bodies, omitted, schema)
    except NONSENSE as error:
        if len(bodies) > 1:  # which one is it?
            pairs = zip(bodies, omitted, strict=True)
            return pa.concat_tables(_records_of([body], [one], schema) for body, one in pairs)
        _, topic, partition, first, *_ = omitted[0]
        what = "there are fewer than their number" if isinstance(error, IndexError) else error
        why = f"its records are damaged ({what})"
        raise Unreadable(topic, partition, first, why) from error


def _old_records(part: Fetched, head: Head, schema: pa.Schema) -> pa.Table:
    """Return the wanted records of a message of format 0 or 1."""
    try:
        found = old_messages.messages(memoryview(part.data)[head.begin : head.end])
    except NONSENSE as error:
        raise Unreadable(part.topic, part.partition, head.last, error) from error
    rows = [
        {
            "topic": part.topic,
            "partition": part.partition,
            "offset": each.offset,
            "timestamp": each.timestamp,
            "key": each.key,
            "value": each.value,
            TIMESTAMP_TYPE.name: each.timestamp_type,
        }
        for each in found
        if part.first <= each.offset < part.stop
    ]
    return pa.Table.from_pylist(rows, schema)


def _unreadable(part: Fetched, head: Head, why: str) -> Unreadable:
    return Unreadable(part.topic, part.partition, head.first, why)
