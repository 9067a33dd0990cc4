"""Labels and channels in values, read by the judge itself: one value at a time, with Python's own
means.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from streaming.kafka.registry import Registry, TooMuch
from streaming.settings.fields import AVRO, JSON, Steps, ValueField
from streaming.verify.avro import AvroSchema, Cursor, Unreadable
from streaming.verify.records import Record

if TYPE_CHECKING:
    from streaming.verify.protobuf import ProtobufSchema

Known: TypeAlias = "AvroSchema | ProtobufSchema"
FRAME_BYTES = 5
VALUE_BYTES_MAX, TEXT_BYTES_MAX, DEPTH_MAX = 16 * 2**20, 10_000, 512
STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)

Said: TypeAlias = tuple[bool, bytes | None]
"""Whether something is there, and its text; None: it cannot be read."""
ABSENT: Said = (False, None)
UNREADABLE: Said = (True, None)


class Whole(str):
    """A whole number in its own digits."""

    __slots__ = ()


@dataclass(slots=True)
class Registered:
    """Schemas as the registry has them now, each asked for once."""

    registry: Registry | None = None
    found: dict[int, Known | None] = field(default_factory=dict)

    def schema(self, number: int) -> Known | None:
        """Return a schema; None where there is none to read with. RegistryUnavailable."""
        if number not in self.found:
            assert self.registry is not None  # noqa: S101  (the configuration was checked)
            self.found[number] = _asked(self.registry, number)
        return self.found[number]


def _asked(registry: Registry, number: int) -> Known | None:
    try:
        answer = registry.schema(number)
        kind = None if answer is None else answer.get("schemaType") or "AVRO"
        if answer is None or kind not in ("AVRO", "PROTOBUF"):
            return None
        texts = {name: each["schema"] for name, each in registry.references(answer).items()}
        if kind == "AVRO":
            return AvroSchema.of([*texts.values(), answer["schema"]])
        from streaming.values import protobuf_files, protobuf_values  # noqa: PLC0415  (an extra)
        from streaming.verify.protobuf import ProtobufSchema  # noqa: PLC0415

        compiled = protobuf_files.compiled(answer["schema"], texts)
        return ProtobufSchema(protobuf_values.file_of(compiled))
    except (TooMuch, Unreadable, KeyError, TypeError, ValueError, OverflowError):
        return None


def said_of(
    record: Record, header: str | None, field: ValueField | None, registered: Registered
) -> Said:
    """Return what a record says of its label or channel in a field, a header, or (None) its key."""
    if field is None:
        if header is None:
            return record.key is not None, record.key
        return record.has_header(header), record.header(header)
    if field.encoding == JSON:
        return in_json(record.value, field.steps)
    return in_frame(record.value, field, registered)


def schema_of(value: bytes | None) -> int | None:
    """Return the id of the schema that a value names."""
    framed = value is not None and len(value) >= FRAME_BYTES and value[0] == 0
    return int.from_bytes(value[1:FRAME_BYTES]) if framed and value else None


def in_frame(value: bytes | None, field: ValueField, registered: Registered) -> Said:
    """Return what a field of a framed value says, in Avro or Protobuf."""
    if value is None:
        return ABSENT
    number = schema_of(value)
    if number is None or number >= 2**31 or len(value) > VALUE_BYTES_MAX:
        return UNREADABLE
    schema = registered.schema(number)
    if schema is None or isinstance(schema, AvroSchema) is not (field.encoding == AVRO):
        return UNREADABLE
    try:
        if isinstance(schema, AvroSchema):
            return scalar(Cursor(schema, value, FRAME_BYTES).read(schema.root, field.steps))
        from streaming.verify.protobuf import read  # noqa: PLC0415  (an extra)

        return scalar(read(value, schema, field.steps))
    except (Unreadable, KeyError, TypeError):  # of a schema that is none, such as a size in words
        return UNREADABLE


def in_json(value: bytes | None, steps: Steps) -> Said:
    """Return what a field of a value in JSON says."""
    if value is None:
        return ABSENT
    if len(value) > VALUE_BYTES_MAX:
        return UNREADABLE
    if value[:1] == b"\0":
        value = value[5:]
    try:
        text = value.decode()
        found = json.loads(text, parse_int=Whole, parse_float=_no_scalar, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return UNREADABLE
    if _depth(text) > DEPTH_MAX or ("\\u" in text and not _encodable(text)):
        return UNREADABLE
    for step in steps:
        if isinstance(step, str):
            found = found.get(step) if isinstance(found, dict) else None
        else:
            found = found[step] if isinstance(found, list) and step < len(found) else None
    return scalar(found)


def scalar(found: Any) -> Said:
    """Return what a number or text says; nothing else says anything that can be read."""
    if found is None:
        return ABSENT
    text = found.encode() if isinstance(found, str) else found
    return (True, text) if isinstance(text, bytes) and len(text) <= TEXT_BYTES_MAX else UNREADABLE


def _no_scalar(_: str) -> list[Any]:
    return []


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _encodable(text: str) -> bool:
    """Whether all strings of a JSON text are Unicode: no half of a surrogate pair by itself."""
    try:
        for token in STRING.findall(text):
            json.loads(token).encode()
    except UnicodeEncodeError:
        return False
    return True


def _depth(text: str) -> int:
    if text.count("[") + text.count("{") <= DEPTH_MAX:
        return 0
    depth = deepest = 0
    for sign in STRING.sub("", text):
        depth += (sign in "[{") - (sign in "]}")
        deepest = max(deepest, depth)
    return deepest
