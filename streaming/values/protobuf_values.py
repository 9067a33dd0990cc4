"""Fields of values in Protobuf, by its own runtime.

    byte     0      1 … 4           5 …               then
    what     0      schema's id     which message     the message

Which message of the schema's file it is, a list of varints says: how many, then the message's
number in the file, the number of one nested in it, and so on. One byte 0 stands for the first one.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from streaming.settings.fields import Steps
from streaming.values.framing import (
    FRAME_BYTES,
    WHY_CHARACTERS_MAX,
    BadSchema,
    Malformed,
    NoScalar,
    read_framed,
)
from streaming.values.schemas import Schema, Schemas
from streaming.values.texts import Texts
from streaming.values.varints import long_at

PROTOBUF = "PROTOBUF"
READERS_MAX = 1_000
NESTED_MAX = 32

Get: TypeAlias = Callable[[Any], bytes | None]
WHOLE = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
    }
)


def read_protobuf(values: pa.Array, path: str, steps: Steps, schemas: Schemas) -> Texts:
    """Return what is there of each framed value (binary); SchemasNeeded."""
    return read_framed(values, path, schemas, lambda packed: _reader(packed, steps))


def file_of(schema: Schema) -> Any:
    """Return the descriptor of a schema's file; BadSchema."""
    if schema.unusable or schema.kind != PROTOBUF:
        raise BadSchema(schema.unusable or f"it is of {schema.kind}, not of {PROTOBUF}")
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(schema.text)).file
        pool = descriptor_pool.DescriptorPool()
        for each in files:
            pool.AddSerializedFile(each.SerializeToString())
        return pool.FindFileByName(files[-1].name)
    except (DecodeError, TypeError, KeyError, IndexError, ValueError) as error:
        why = str(error)[:WHY_CHARACTERS_MAX]
        raise BadSchema(f"Protobuf's runtime refuses it: {why}") from error


def message_at(file: Any, indexes: tuple[int, ...]) -> Any:
    """Return the descriptor of a message by its offset in a file; Malformed where there is none."""
    found: Any = None
    for index in indexes:
        there = file.message_types_by_name if found is None else found.nested_types_by_name
        if not 0 <= index < len(there):
            raise Malformed
        found = [*there.values()][index]
    return found


def frame_end(value: bytes) -> tuple[tuple[int, ...], int]:
    """Return which message a value is, and where it begins."""
    count, offset = long_at(value, FRAME_BYTES)
    if not count:
        return (0,), offset
    if not 0 < count <= NESTED_MAX:
        raise Malformed
    indexes = []
    for _ in range(count):
        index, offset = long_at(value, offset)
        indexes.append(index)
    return tuple(indexes), offset


@lru_cache(READERS_MAX)
def _reader(packed: str, steps: Steps) -> Callable[[bytes], bytes | None]:
    file = file_of(Schema.unpacked(packed))
    known: dict[tuple[int, ...], tuple[Any, Get]] = {}

    def read(value: bytes) -> bytes | None:
        indexes, begin = frame_end(value)
        if indexes not in known:
            kind = message_at(file, indexes)
            known[indexes] = message_factory.GetMessageClass(kind), _getter(kind, steps)
        message, get = known[indexes]
        try:
            return get(message.FromString(value[begin:]))
        except DecodeError as error:
            raise Malformed from error

    return read


def _getter(kind: Any, steps: Steps) -> Get:
    """Return what reads a field of a message: step by step into messages, then the field."""
    field = kind.fields_by_name.get(steps[0])
    if field is None:
        return _absent
    name, has_presence = field.name, field.has_presence
    is_message = field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE
    if len(steps) > 1:
        if field.is_repeated or not is_message:
            return _absent
        inner = _getter(field.message_type, steps[1:])
    else:
        inner = _none if field.is_repeated or is_message else _scalar(field)

    def get(message: Any) -> bytes | None:
        if has_presence and not message.HasField(name):
            return None
        return inner(getattr(message, name))

    return get


def _scalar(field: Any) -> Get:
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number)).encode()
    if field.cpp_type in WHOLE:
        return lambda number: b"%d" % number
    if field.type == FieldDescriptor.TYPE_BYTES:
        return lambda found: found
    return _utf8 if field.type == FieldDescriptor.TYPE_STRING else _none


def _utf8(found: str | bytes) -> bytes:
    if isinstance(found, bytes):  # proto2 lets any bytes pass as a string
        raise Malformed
    return found.encode()


def _absent(_: Any) -> None:
    return None


def _none(_: Any) -> None:
    raise NoScalar
