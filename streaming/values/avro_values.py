"""Fields of values in Avro 1.12, read as far as the field; what lies behind it is not looked at.

A schema and a path become functions, each of which passes over one thing, or reads it:

    schema   {"type": "record", "fields": [{"id": string}, {"price": double}, {"seq": long}, …]}
    path     seq
    reader   over a text, over 8 bytes, read a number

fastavro decodes whole values, at several times the cost, and ends the process where one is nested
deep enough. Each of these functions takes a byte of the value or does nothing, so a value of any
bytes is read in a time that goes by its length.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import pyarrow as pa

from streaming.settings.fields import Steps
from streaming.values.framing import FRAME_BYTES, BadSchema, Malformed, NoScalar, read_framed
from streaming.values.schemas import Schema, Schemas
from streaming.values.texts import Texts
from streaming.values.varints import long_at

AVRO = "AVRO"
DEPTH_MAX = 300
"""So deep may records, arrays, maps and unions lie in one another before the field. Each of them
takes two calls at most, and Python's stack has room for a thousand."""
READERS_MAX = 1_000
PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "string", "bytes")
RECORDS = ("record", "error")
NAMED = (*RECORDS, "enum", "fixed")
ITEMS = {"array": "items", "map": "values"}

Skip: TypeAlias = Callable[[bytes, int, int], int]
"""(value, offset, depth) to the offset behind a thing; IndexError or Malformed where it is none."""
Read: TypeAlias = Callable[[bytes, int, int], bytes | None]
"""(value, offset, depth) to the text of a field; None where it is not there."""


def read_avro(values: pa.Array, path: str, steps: Steps, schemas: Schemas) -> Texts:
    """Return what is there of each framed value (binary); SchemasNeeded."""
    return read_framed(values, path, schemas, lambda packed: _reader(packed, steps))


def require_avro(schema: Schema) -> None:
    """BadSchema where no value can be read with the schema."""
    _compiled(schema, ())


@lru_cache(READERS_MAX)
def _reader(packed: str, steps: Steps) -> Callable[[bytes], bytes | None]:
    schema = Schema.unpacked(packed)
    if schema.unusable or schema.kind != AVRO:
        raise BadSchema(schema.unusable or f"it is of {schema.kind}, not of {AVRO}")
    read = _compiled(schema, steps)
    return lambda value: read(value, FRAME_BYTES, 0)


def _compiled(schema: Schema, steps: Steps) -> Read:
    try:
        texts = [json.loads(text) for text in (*schema.references, schema.text)]
        compiler = Compiler()
        for each in texts:
            compiler.declare(each, "")
        compiler.skip(texts[-1], "")  # all of it has to be a schema
        return compiler.read(texts[-1], "", steps)
    except NOT_SCHEMA as error:
        why = str(error) if isinstance(error, BadSchema) else "it is not a schema of Avro"
        raise BadSchema(why) from error


def _behind(value: bytes, offset: int, size: int) -> int:
    if size < 0 or offset + size > len(value):
        raise Malformed
    return offset + size


def _nothing(_value: bytes, offset: int, _depth: int) -> int:
    return offset


def _skip_long(value: bytes, offset: int, _depth: int) -> int:
    return offset + 1 if value[offset] < 0x80 else long_at(value, offset)[1]


def _skip_bytes(value: bytes, offset: int, _depth: int) -> int:
    size, offset = long_at(value, offset)
    return _behind(value, offset, size)


def _skip_boolean(value: bytes, offset: int, _depth: int) -> int:
    if value[offset] > 1:
        raise Malformed
    return offset + 1


def _fixed(size: int) -> Skip:
    return lambda value, offset, _depth: _behind(value, offset, size)


SKIPS: dict[str, Skip] = {
    "boolean": _skip_boolean,
    **dict.fromkeys(("int", "long"), _skip_long),
    **dict.fromkeys(("string", "bytes"), _skip_bytes),
    "float": _fixed(4),
    "double": _fixed(8),
}
NOT_SCHEMA = (ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError)


def _entry(of_value: Skip) -> Skip:
    return lambda value, offset, depth: of_value(value, _skip_bytes(value, offset, depth), depth)


def _blocks(item: Skip) -> Skip:
    """Return what skips an array's or a map's blocks; one that states its size is skipped whole."""

    def skip(value: bytes, offset: int, depth: int) -> int:
        if depth >= DEPTH_MAX:
            raise Malformed
        while True:
            count, offset = long_at(value, offset)
            if not count:
                return offset
            if count < 0:
                size, offset = long_at(value, offset)
                offset = _behind(value, offset, size)
            elif item is not _nothing:
                for _ in range(count):
                    offset = item(value, offset, depth + 1)

    return skip


def _union(branches: list[Skip]) -> Skip:
    choose = _one_of(branches)

    def skip(value: bytes, offset: int, depth: int) -> int:
        if depth >= DEPTH_MAX:
            raise Malformed
        passed: int = choose(value, offset, depth + 1)
        return passed

    return skip


def _one_of(branches: list[Any]) -> Callable[[bytes, int, int], Any]:
    def choose(value: bytes, offset: int, depth: int) -> Any:
        number, offset = long_at(value, offset)
        if not 0 <= number < len(branches):
            raise Malformed
        return branches[number](value, offset, depth)

    return choose


@dataclass(slots=True)
class Compiler:
    """Makes functions of one schema.

    ``names``: its named types, each with the namespace in which names within it stand. ``skips``:
    what was made of them, None where it is being made; ``reads``: and of their fields, by name and
    further steps. ``empty``: whether they take no byte.
    """

    names: dict[str, tuple[Any, str]] = field(default_factory=dict)
    skips: dict[str, Skip | None] = field(default_factory=dict)
    reads: dict[tuple[str, Steps], Read] = field(default_factory=dict)
    empty: dict[str, bool] = field(default_factory=dict)

    def declare(self, schema: Any, space: str) -> None:
        """Note the named types in a schema."""
        if isinstance(schema, list):
            for each in schema:
                self.declare(each, space)
        elif isinstance(schema, dict):
            kind = schema["type"]
            if kind in NAMED:
                name = _name(schema, space)
                space = name.rpartition(".")[0]
                self.names[name] = (schema, space)
            if not isinstance(kind, str):
                self.declare(kind, space)
            elif kind in ITEMS:
                self.declare(schema[ITEMS[kind]], space)
            for each in schema["fields"] if kind in RECORDS else ():
                self.declare(each["type"], space)

    def resolved(self, schema: Any, space: str) -> tuple[str, Any, str]:
        """Return the kind of a schema, its definition, and the namespace within it."""
        if isinstance(schema, list):
            return "union", schema, space
        if isinstance(schema, dict):
            kind = schema["type"]
            if kind in NAMED:
                schema, space = _name(schema, space), ""
            elif kind in ("array", "map"):
                return kind, schema, space
            else:
                return self.resolved(kind, space)
        elif schema in PRIMITIVES:
            return schema, None, space
        for name in (_full(schema, space), schema):
            if name in self.names:
                definition, inner = self.names[name]
                kind = definition["type"]
                return "record" if kind == "error" else kind, definition, inner
        raise BadSchema(f"it does not define {schema}")

    def takes_nothing(self, schema: Any, space: str) -> bool:
        """Return whether a thing has no byte."""
        kind, definition, inner = self.resolved(schema, space)
        if kind == "fixed":
            return int(definition["size"]) == 0
        if kind != "record":
            return kind == "null"
        name = _full(definition["name"], inner)
        if name not in self.empty:
            self.empty[name] = False  # for one that has itself
            fields = definition["fields"]
            self.empty[name] = all(self.takes_nothing(each["type"], inner) for each in fields)
        return self.empty[name]

    def skip(self, schema: Any, space: str) -> Skip:
        """Return what passes over a thing."""
        kind, definition, inner = self.resolved(schema, space)
        if self.takes_nothing(schema, space):
            return _nothing
        parts: dict[str, Callable[[], Skip]] = {
            "union": lambda: _union([self.skip(each, inner) for each in definition]),
            "array": lambda: _blocks(self.skip(definition["items"], inner)),
            "map": lambda: _blocks(_entry(self.skip(definition["values"], inner))),
            "record": lambda: self._skip_record(definition, inner),
            "enum": lambda: _one_of([_nothing] * len(definition["symbols"])),
            "fixed": lambda: _fixed(int(definition["size"])),
        }
        return SKIPS[kind] if kind in SKIPS else parts[kind]()

    def _skip_record(self, definition: Any, inner: str) -> Skip:
        name = _full(definition["name"], inner)
        if name not in self.skips:
            self.skips[name] = None
            self.skips[name] = _all_of(
                [self.skip(each["type"], inner) for each in definition["fields"]]
            )
        return self.skips[name] or self._being_made(name)

    def _being_made(self, name: str) -> Skip:
        def skip(value: bytes, offset: int, depth: int) -> int:
            made = self.skips[name]
            assert made is not None  # noqa: S101  (all are made before the first value)
            return made(value, offset, depth)

        return skip

    def read(self, schema: Any, space: str, steps: Steps) -> Read:
        """Return what reads the field to which the steps lead."""
        kind, definition, inner = self.resolved(schema, space)
        if kind == "union":
            return _one_of([self.read(each, inner, steps) for each in definition])
        if kind == "null":
            return _absent
        if not steps:
            return _scalar(kind, definition)
        if kind != "record":
            return _absent
        asked = _full(definition["name"], inner), steps
        if asked not in self.reads:
            self.reads[asked] = self._read_field(definition, inner, steps)
        return self.reads[asked]

    def _read_field(self, definition: Any, inner: str, steps: Steps) -> Read:
        names = [each["name"] for each in definition["fields"]]
        if steps[0] not in names:
            return _absent
        number = names.index(steps[0])
        *before, last = definition["fields"][: number + 1]
        passed = _all_of([self.skip(each["type"], inner) for each in before])
        found = self.read(last["type"], inner, steps[1:])
        return lambda value, offset, depth: found(value, passed(value, offset, depth), depth)


def _all_of(parts: list[Skip]) -> Skip:
    parts = [each for each in parts if each is not _nothing]

    def skip(value: bytes, offset: int, depth: int) -> int:
        if depth >= DEPTH_MAX:
            raise Malformed
        for each in parts:
            offset = each(value, offset, depth + 1)
        return offset

    return skip


def _absent(_value: bytes, _place: int, _depth: int) -> None:
    return None


def _scalar(kind: str, definition: Any) -> Read:
    """Return what reads a whole number or text."""

    def number(value: bytes, offset: int, _depth: int) -> bytes:
        return b"%d" % long_at(value, offset)[0]

    def text(value: bytes, offset: int, _depth: int) -> bytes:
        size, offset = long_at(value, offset)
        found = value[offset : _behind(value, offset, size)]
        if kind == "string":
            found.decode()
        return found

    def fixed(value: bytes, offset: int, _depth: int) -> bytes:
        return value[offset : _behind(value, offset, int(definition["size"]))]

    def none(_value: bytes, _place: int, _depth: int) -> None:
        raise NoScalar

    if kind == "enum":
        symbols = [each.encode() for each in definition["symbols"]]
        return _one_of([lambda _value, _place, _depth, each=each: each for each in symbols])
    readers: dict[str, Read] = dict.fromkeys(("int", "long"), number)
    readers |= dict.fromkeys(("string", "bytes"), text) | {"fixed": fixed}
    return readers.get(kind, none)


def _name(schema: Any, space: str) -> str:
    """Return the whole name that a schema gives a type; the namespace "" is none."""
    own = schema.get("namespace")
    return _full(schema["name"], space if own is None else own)


def _full(name: str, space: str) -> str:
    return f"{space}.{name}" if space and "." not in name else name
