"""Fields inside of records' values, as the file names them: ``{ json = "$.order.seq" }``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import PlainSerializer, PlainValidator

from streaming.settings.values import fault, printable_text

JSON, AVRO, PROTOBUF = "json", "avro", "protobuf"
ENCODINGS = (JSON, AVRO, PROTOBUF)
OF_REGISTRY = (AVRO, PROTOBUF)
"""Encodings whose values can be read with a schema only, which a registry has."""

STEPS_MAX = 32
"""So deep may a field lie."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
JSON_STEP = re.compile(
    r"""
      \.(?P<name>[^\s.\[\]'"$*@?()]+)
    | \[(?P<at>[0-9]{1,9})\]
    | \['(?P<single>[^']+)'\] | \["(?P<double>[^"]+)"\]
    """,
    re.VERBOSE,
)

Steps: TypeAlias = tuple[str | int, ...]
"""A field's way from the value: names of fields, places in lists."""


@dataclass(frozen=True, slots=True)
class ValueField:
    """A field of records' values. ``path`` is as it was written, ``steps`` what it means."""

    encoding: str
    path: str
    steps: Steps

    def __str__(self) -> str:
        return f'{{ {self.encoding} = "{self.path}" }}'

    @property
    def needs_schema(self) -> bool:
        """Whether values can be read with a registry's schema only."""
        return self.encoding in OF_REGISTRY


def value_field(table: dict[str, Any]) -> ValueField:
    """Return the field that a table of the file names; ValueError where it names none."""
    known = [key for key in table if key in ENCODINGS]
    if len(table) != 1 or not known:
        raise ValueError(
            'names a field of the value by one of json, avro and protobuf: { json = "$.seq" }'
        )
    (encoding,) = known
    path = table[encoding]
    if not isinstance(path, str):
        raise fault("must be text in quotes", encoding)
    steps = json_steps(path) if encoding == JSON else named_steps(path)
    if steps is None:
        form = '"$.order.seq" or "$.items[0].id"' if encoding == JSON else '"seq" or "order.seq"'
        raise fault(f"{path!r} is not a path of one field; write for instance {form}", encoding)
    if len(steps) > STEPS_MAX:
        raise fault(f"{path!r} has more than {STEPS_MAX} steps", encoding)
    return ValueField(encoding, path, steps)


def json_steps(path: str) -> Steps | None:
    """Return the steps of a singular JSONPath query (RFC 9535): names and places in arrays.

    None where it is something else.
    """
    if not path.startswith("$"):
        return None
    steps: list[str | int] = []
    begin = 1
    while begin < len(path):
        found = JSON_STEP.match(path, begin)
        if found is None:
            return None
        name = found["name"] or found["single"] or found["double"]
        steps.append(int(found["at"]) if name is None else name)
        begin = found.end()
    return tuple(steps)


def named_steps(path: str) -> Steps | None:
    """Return the names in a path with dots; None where one is not a name."""
    names = path.split(".")
    return tuple(names) if all(map(NAME.fullmatch, names)) else None


def _expression(value: Any) -> str | ValueField:
    if isinstance(value, dict):
        return value_field(value)
    if not isinstance(value, str):
        raise ValueError(  # noqa: TRY004  (pydantic's word for what a user wrote)
            'must be text in quotes, or a field of the value: { json = "$.seq" }'
        )
    return printable_text(value)


def _written(value: str | ValueField) -> str | dict[str, str]:
    return {value.encoding: value.path} if isinstance(value, ValueField) else value


Expression = Annotated[str | ValueField, PlainValidator(_expression), PlainSerializer(_written)]
"""A SQL expression, or a field of the value."""
