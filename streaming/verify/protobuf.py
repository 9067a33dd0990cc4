"""Values in Protobuf as the judge reads them: off the wire, with the descriptors of their schema.

Protobuf's own runtime says whether a message is one; what it says is read here. Where a message
stands in a value several times, it is all of their bytes, one behind the other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import FieldDescriptor as Kind
from google.protobuf.message import DecodeError

from streaming.settings.fields import Steps
from streaming.verify.avro import AvroSchema, Cursor, Unreadable

VARINT, EIGHT, BYTES, BEGIN, END, FOUR = range(6)
ZIGZAG = (Kind.TYPE_SINT32, Kind.TYPE_SINT64)
SIGNED = {Kind.TYPE_INT32: 32, Kind.TYPE_INT64: 64, Kind.TYPE_ENUM: 32}
UNSIGNED = {Kind.TYPE_UINT32: 32, Kind.TYPE_UINT64: 64}
FIXED = {
    Kind.TYPE_FIXED32: "<I",
    Kind.TYPE_SFIXED32: "<i",
    Kind.TYPE_FIXED64: "<Q",
    Kind.TYPE_SFIXED64: "<q",
}
TEXTS = (Kind.TYPE_STRING, Kind.TYPE_BYTES)
MESSAGES = (Kind.TYPE_MESSAGE, Kind.TYPE_GROUP)


@dataclass(frozen=True, slots=True)
class ProtobufSchema:
    """The descriptor of a schema's file."""

    file: Any


def read(value: bytes, schema: ProtobufSchema, steps: Steps) -> bytes | None:
    """Return what a field of a framed value says; None where it is not there, Unreadable."""
    cursor = Cursor(AvroSchema(), value, 5)
    count = cursor.number()
    if count < 0 or count > 32:
        raise Unreadable
    kind: Any = schema.file
    for index in [cursor.number() for _ in range(count)] or [0]:
        inside = kind.message_types_by_name if kind is schema.file else kind.nested_types_by_name
        if not 0 <= index < len(inside):
            raise Unreadable
        kind = list(inside.values())[index]
    content = value[cursor.offset :]
    try:
        message_factory.GetMessageClass(kind)().ParseFromString(content)
    except DecodeError as error:
        raise Unreadable from error
    return _found(content, kind, steps)


def _found(content: bytes, kind: Any, steps: Steps) -> bytes | None:
    field = {each.name: each for each in kind.fields}.get(str(steps[0]))
    if field is None:
        return None
    if field.is_repeated or (len(steps) > 1) is not (field.type in MESSAGES):
        if len(steps) > 1:
            return None
        if field.is_repeated or _there(content, field):
            raise Unreadable
        return None
    there = _there(content, field)
    if field.type in MESSAGES:
        return _found(b"".join(there), field.message_type, steps[1:]) if there else None
    if there:
        return _text(there[-1], field)
    return None if field.has_presence else _text(b"" if field.type in TEXTS else 0, field)


def _there(content: bytes, field: Any) -> list[Any]:
    """Return what a message has of a field, nothing of what another one of its oneof replaced."""
    rivals = {each.number for each in field.containing_oneof.fields if each is not field} if (
        field.containing_oneof
    ) else set()  # fmt: skip
    found: list[Any] = []
    for number, wire, payload in _fields(content):
        if number in rivals:
            found.clear()
        elif number == field.number and wire == _wire(field):
            closed = field.type == Kind.TYPE_ENUM and field.enum_type.is_closed
            if not closed or _whole(payload, field) in field.enum_type.values_by_number:
                found.append(payload)
    return found


def _wire(field: Any) -> int:
    if field.type in (*TEXTS, Kind.TYPE_MESSAGE):
        return BYTES
    if field.type == Kind.TYPE_GROUP:
        return BEGIN
    if field.type in FIXED:
        return EIGHT if FIXED[field.type][1] in "Qq" else FOUR
    return {Kind.TYPE_DOUBLE: EIGHT, Kind.TYPE_FLOAT: FOUR}.get(field.type, VARINT)


def _fields(content: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and content of a message's fields; that of a group is its bytes."""
    offset = 0
    while offset < len(content):
        tag, offset = _varint(content, offset)
        number, wire, begin = (tag & 0xFFFFFFFF) >> 3, tag & 7, offset
        payload, offset = _payload(content, offset, wire)
        if wire == BEGIN:
            payload = content[begin : offset - _tag_length(content, begin, offset)]
        yield number, wire, payload


def _tag_length(content: bytes, begin: int, stop: int) -> int:
    """Return how many bytes the tag has that ends a group."""
    offset = last = begin
    while offset < stop:
        last = offset
        tag, offset = _varint(content, offset)
        _, offset = _payload(content, offset, tag & 7)
    return stop - last


def _payload(content: bytes, offset: int, wire: int) -> tuple[Any, int]:
    if wire == VARINT:
        return _varint(content, offset)
    if wire in (EIGHT, FOUR):
        size = 8 if wire == EIGHT else 4
        return content[offset : offset + size], offset + size
    if wire == BYTES:
        size, offset = _varint(content, offset)
        return content[offset : offset + size], offset + size
    while wire == BEGIN:
        tag, offset = _varint(content, offset)
        if tag & 7 == END:
            break
        _, offset = _payload(content, offset, tag & 7)
    return b"", offset


def _varint(content: bytes, offset: int) -> tuple[int, int]:
    number = power = 0
    while offset < len(content):
        byte = content[offset]
        number += (byte & 127) << power
        offset, power = offset + 1, power + 7
        if byte < 128:
            return number % 2**64, offset
    raise Unreadable


def _whole(payload: Any, field: Any) -> int:
    if field.type in FIXED:
        form = FIXED[field.type]
        return int(struct.unpack(form, payload)[0]) if isinstance(payload, bytes) else 0
    if field.type in ZIGZAG:
        number = int(payload % 2**32 if field.type == Kind.TYPE_SINT32 else payload)
        return -(number + 1) // 2 if number % 2 else number // 2
    if field.type in UNSIGNED:
        return int(payload % 2 ** UNSIGNED[field.type])
    bits = SIGNED[field.type]
    number = int(payload % 2**bits)
    return number - 2**bits if number >= 2 ** (bits - 1) else number


def _text(payload: Any, field: Any) -> bytes:
    if field.type in TEXTS:
        text = bytes(payload)
        if field.type == Kind.TYPE_STRING and text.decode(errors="ignore").encode() != text:
            raise Unreadable
        return text
    if field.type not in (*FIXED, *ZIGZAG, *SIGNED, *UNSIGNED):
        raise Unreadable
    number = _whole(payload, field)
    if field.type == Kind.TYPE_ENUM:
        named = field.enum_type.values_by_number.get(number)
        return str(number).encode() if named is None else str(named.name).encode()
    return b"%d" % number
