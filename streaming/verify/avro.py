"""Values in Avro as the judge reads them: schema in hand, byte by byte, as far as a field.

Nothing is compiled or kept from one record to the next; see the specification, "Binary encoding".
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from streaming.settings.fields import Steps

DEPTH_MAX = 300
PRIMITIVES = {"null", "boolean", "int", "long", "float", "double", "string", "bytes"}
ITEMS = {"array": "items", "map": "values"}
CONTAINERS = {"record", "union", *ITEMS}


class Unreadable(Exception):  # noqa: N818  (what was found)
    """The bytes are not what the schema says, or the field is neither a number nor text."""


@dataclass(slots=True)
class AvroSchema:
    """A schema, with the types that it names."""

    root: Any = None
    types: dict[str, Any] = field(default_factory=dict)
    names: list[tuple[str, str]] = field(default_factory=list)
    empty: dict[int, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: list[str]) -> AvroSchema:
        """Return the last of the texts' schemas; the others are those that it refers to."""
        schema = cls()
        try:
            for text in texts:
                schema.root = schema.spelled_out(json.loads(text), "")
            known = PRIMITIVES | schema.types.keys()
            if not all(known.intersection(names) for names in schema.names):
                raise Unreadable
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise Unreadable from error
        return schema

    def spelled_out(self, part: Any, space: str) -> Any:
        """Return a part with whole names, each type as a dictionary; named types are noted."""
        if isinstance(part, list):
            return {"type": "union", "branches": [self.spelled_out(each, space) for each in part]}
        if isinstance(part, str):
            name = f"{space}.{part}" if space and "." not in part else part
            self.names.append((name, part))
            return {"type": "reference", "names": (name, part)}
        kind = part["type"]
        if not isinstance(kind, str) or kind not in (
            "record", "error", "enum", "fixed", "array", "map",
        ):  # fmt: skip
            return self.spelled_out(kind, space)
        new = {**part, "type": "record" if kind == "error" else kind}
        if kind not in ITEMS:
            space = part["namespace"] if isinstance(part.get("namespace"), str) else space
            name = part["name"]
            name = name if "." in name or not space else f"{space}.{name}"
            space = name.rpartition(".")[0]
            self.types[name] = new
        if kind in ITEMS:
            new["items"] = self.spelled_out(part[ITEMS[kind]], space)
        if new["type"] == "record":
            new["fields"] = [
                (each["name"], self.spelled_out(each["type"], space)) for each in part["fields"]
            ]
        return new

    def looked_up(self, part: Any) -> Any:
        """Return what a reference stands for; a primitive type as its name."""
        if part["type"] != "reference":
            return part
        for name in part["names"]:
            if name in self.types:
                return self.types[name]
        return {"type": part["names"][1]}

    def is_empty(self, part: Any) -> bool:
        """Return whether a thing takes no byte."""
        part = self.looked_up(part)
        if part["type"] != "record":
            return bool(part["type"] == "null" or (part["type"] == "fixed" and part["size"] == 0))
        if id(part) not in self.empty:
            self.empty[id(part)] = False  # for one that has itself
            self.empty[id(part)] = all(self.is_empty(each) for _, each in part["fields"])
        return self.empty[id(part)]


@dataclass(slots=True)
class Cursor:
    """A offset in a value."""

    schema: AvroSchema
    value: bytes
    offset: int

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        found = self.value[self.offset : self.offset + max(count, 0)]
        if len(found) != count:
            raise Unreadable
        self.offset += count
        return found

    def number(self) -> int:
        """Return the next number."""
        digits: list[int] = []
        while not digits or digits[-1] >= 128:
            digits.append(self.take(1)[0])
            if len(digits) > 10:
                raise Unreadable
        number: int = sum((digit % 128) * 128**power for power, digit in enumerate(digits))
        if number >= 2**64:
            raise Unreadable
        return -(number + 1) // 2 if number % 2 else number // 2

    def pass_over(self, part: Any, depth: int) -> None:
        """Go behind a thing."""
        part = self.schema.looked_up(part)
        kind = part["type"]
        if self.schema.is_empty(part):
            return
        if depth >= DEPTH_MAX and kind in CONTAINERS:
            raise Unreadable
        if kind == "record":
            for _, each in part["fields"]:
                self.pass_over(each, depth + 1)
        elif kind in ("array", "map"):
            self.pass_over_items(part["items"], depth + 1, keys=kind == "map")
        elif kind == "union":
            self.pass_over(self.branch(part["branches"]), depth + 1)
        else:
            self.pass_over_primitive(part, kind)

    def pass_over_primitive(self, part: Any, kind: str) -> None:
        """Go behind a thing that has no other in it."""
        if kind == "enum":
            self.branch(part["symbols"])
        elif kind == "boolean":
            if self.take(1)[0] > 1:
                raise Unreadable
        elif kind in ("int", "long"):
            self.number()
        elif kind in ("string", "bytes"):
            self.take(self.number())
        else:
            self.take(part["size"] if kind == "fixed" else {"float": 4, "double": 8}[kind])

    def pass_over_items(self, part: Any, depth: int, *, keys: bool) -> None:
        """Go behind the blocks of an array or a map."""
        while (count := self.number()) != 0:
            if count < 0:
                self.take(self.number())
            elif keys or not self.schema.is_empty(part):
                for _ in range(count):
                    if keys:
                        self.take(self.number())
                    self.pass_over(part, depth)

    def branch(self, choices: list[Any]) -> Any:
        """Return the one of the choices that the next number names."""
        number = self.number()
        if not 0 <= number < len(choices):
            raise Unreadable
        return choices[number]

    def read(self, part: Any, steps: Steps) -> bytes | None:
        """Return what a field says; None where it is not there."""
        part = self.schema.looked_up(part)
        kind = part["type"]
        if kind == "union":
            return self.read(self.branch(part["branches"]), steps)
        if kind == "null":
            return None
        if not steps:
            return self.scalar(part)
        if kind != "record" or steps[0] not in dict(part["fields"]):
            return None
        for name, each in part["fields"]:
            if name == steps[0]:
                return self.read(each, steps[1:])
            self.pass_over(each, 1)
        return None

    def scalar(self, part: Any) -> bytes:
        """Return a number's digits, or a text."""
        kind = part["type"]
        if kind in ("int", "long"):
            return str(self.number()).encode()
        if kind == "enum":
            return str(self.branch(part["symbols"])).encode()
        if kind == "fixed":
            return self.take(part["size"])
        if kind not in ("string", "bytes"):
            raise Unreadable
        found = self.take(self.number())
        try:
            return found.decode().encode() if kind == "string" else found
        except UnicodeDecodeError as error:
            raise Unreadable from error
