"""Fields of values in JSON (RFC 8259), by msgspec, which builds no object of what nobody asked for.

    paths      $.order.seq  $.order.id
    value      {"order": {"seq": 7, "id": "K1"}, "items": […]}
    tokens     7            "K1"            as they stand in the value; empty where there is none
    texts      7            K1

A whole value has to be JSON, also what no path leads to. Whole numbers are taken unchanged
written, of any size; what is `null`, or not there, is null. A value may have the five bytes before
it by which serializers of JSON Schema name a schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from streaming.arrow.pieces import ends_and_bytes
from streaming.settings.fields import Steps
from streaming.values.texts import TOO_LARGE, VALUE_BYTES_MAX, Texts, no_scalar, shortened

DEPTH_MAX = 512
NOT_JSON = "the value is not JSON"
TOO_DEEP = f"the value is nested deeper than {DEPTH_MAX}"
FRAME_BYTES = 5
"""A byte 0, and a schema's number."""

WHOLE, QUOTED = r"^-?[0-9]+$", r'^"[^\\]*"$'
NOTHING = b"{}"
RAW: Final[Any] = object()
"""A leaf of the tree of paths."""
NO_TOKEN = Raw()
OPENING, CLOSING = np.frombuffer(b"[{", np.uint8), np.frombuffer(b"]}", np.uint8)
QUOTE = ord('"')

_object = msgspec.json.Decoder(dict[str, Raw])
_array = msgspec.json.Decoder(list[Raw])
_any = msgspec.json.Decoder(Raw)
_text = msgspec.json.Decoder(str)


class Shape(NamedTuple):
    """A class with the fields that paths lead to: its decoder, one without fields, and getters."""

    decode: Callable[[bytes], Any]
    blank: Any
    getters: tuple[Callable[[Any], Raw], ...]


def read_json(values: pa.Array, paths: Sequence[str], steps: Sequence[Steps]) -> list[Texts]:
    """Return for each path what is there of each value (binary)."""
    rows, faults = _looked_into(values)
    shape = _shape(tuple(steps))
    decoded: list[Any] = []
    exact: dict[int, list[bytes]] = {}
    remaining = iter(rows)
    while len(decoded) < len(rows):
        try:
            if shape is not None:
                decoded.extend(map(shape.decode, remaining))  # an error leaves what came before it
                break
        except (msgspec.DecodeError, RecursionError):
            pass
        row = len(decoded)
        decoded.append(None if shape is None else shape.blank)
        try:
            exact[row] = [_walk(rows[row], each) if each else _whole(rows[row]) for each in steps]
        except RecursionError:
            faults[row] = TOO_DEEP
        except msgspec.DecodeError:
            faults[row] = NOT_JSON
    faults |= dict.fromkeys(_too_deep(rows, faults), TOO_DEEP)
    found = []
    for number, path in enumerate(paths):
        tokens = [b""] * len(rows)
        if shape is not None:
            tokens = [*map(bytes, map(shape.getters[number], decoded))]
        for row, each in exact.items():
            tokens[row] = each[number]
        for row in faults:
            tokens[row] = b""
        texts = _texts(tokens, path)
        found.append(Texts(texts.texts, {**texts.faults, **faults}))
    return found


@cache
def _shape(steps: tuple[Steps, ...]) -> Shape | None:
    """Return the class; None where a path leads through an array, or one is part of another."""
    tree: dict[str, Any] = {}
    names = []
    for each in steps:
        node = tree
        way: list[str] = []
        for step in each:
            if not isinstance(step, str) or node is RAW:
                return None
            last = len(way) == len(each) - 1
            below = node.setdefault(step, RAW if last else {})
            if (below is RAW) is not last:
                return None
            way.append(f"f{[*node].index(step)}")
            node = below
        if not way:
            return None
        names.append(".".join(way))
    kind = _class_of(tree)
    return Shape(msgspec.json.Decoder(kind).decode, kind(), tuple(map(attrgetter, names)))


def _class_of(tree: dict[str, Any]) -> Any:
    fields, names = [], {}
    for number, (name, below) in enumerate(tree.items()):
        kind = Raw if below is RAW else _class_of(below)
        fields.append((f"f{number}", kind, kind()))
        names[f"f{number}"] = name
    return msgspec.defstruct("Fields", fields, rename=names, frozen=True, gc=False)


def _walk(value: bytes, steps: Steps) -> bytes:
    """Return a path's token, step by step; DecodeError where the value is not JSON."""
    token = _any.decode(value)
    for step in steps:
        try:
            if isinstance(step, str):
                token = _object.decode(token).get(step, NO_TOKEN)
            else:
                items = _array.decode(token)
                token = items[step] if step < len(items) else NO_TOKEN
        except msgspec.ValidationError:
            return b""  # another kind of thing: nothing is below it
        if token is NO_TOKEN:
            return b""
    return bytes(token)


def _whole(value: bytes) -> bytes:
    return b"" if value is NOTHING else bytes(_any.decode(value))


def _looked_into(values: pa.Array) -> tuple[list[bytes], dict[int, str]]:
    """Return the rows without frames, NOTHING for null and for those that are not looked into."""
    rows = values.to_pylist()
    ends, data = ends_and_bytes(values)
    lengths = np.diff(ends)
    first = np.frombuffer(data, np.uint8) if len(data) else np.ones(1, np.uint8)
    begins = first[np.minimum(ends[:-1], len(first) - 1)]
    framed = np.flatnonzero((lengths > FRAME_BYTES) & (begins == 0))
    for row in framed.tolist():
        rows[row] = rows[row] and rows[row][FRAME_BYTES:]
    faults = dict.fromkeys(np.flatnonzero(lengths > VALUE_BYTES_MAX).tolist(), TOO_LARGE)
    try:
        (pa.array(rows, pa.binary()) if len(framed) else values).cast(pa.string())
    except pa.ArrowInvalid:
        faults |= {row: NOT_JSON for row, each in enumerate(rows) if each and not _is_utf8(each)}
    for row in faults:
        rows[row] = None
    return ([NOTHING if each is None else each for each in rows] if None in rows else rows), faults


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _too_deep(rows: Sequence[bytes], faults: Mapping[int, str]) -> Iterator[int]:
    """Yield the rows of JSON that is nested too deep, whatever Python's stack lets msgspec read.

    Also of what is no JSON: how deep msgspec came before it saw that depends on the stack, too.
    """
    for row, value in enumerate(rows):
        if len(value) <= DEPTH_MAX or faults.get(row, NOT_JSON) != NOT_JSON:
            continue
        if value.count(b"[") + value.count(b"{") > DEPTH_MAX and _depth(value) > DEPTH_MAX:
            yield row


def _depth(value: bytes) -> int:
    """Return how deep a value is nested; a string that does not end goes to the end.

    Without `re`, which takes 100 bytes for each character of a string.
    """
    plain = value.replace(rb"\\", b"__").replace(rb"\"", b"__")
    signs = np.frombuffer(plain, np.uint8)
    opened = np.isin(signs, OPENING).astype(np.int8) - np.isin(signs, CLOSING)
    opened[np.logical_xor.accumulate(signs == QUOTE)] = 0  # in strings
    return int(np.cumsum(opened, dtype=np.int32).max(initial=0))


def _texts(tokens: Sequence[bytes], path: str) -> Texts:
    """Return the texts of tokens of JSON: whole numbers unchanged, strings without quotes.

    Other tokens, and too long ones, are faults; empty ones and `null` are null.
    """
    column = pa.array(tokens, pa.binary())
    whole = pc.match_substring_regex(column, WHOLE)
    quoted = pc.match_substring_regex(column, QUOTED)
    inner = pc.binary_slice(column, 1, -1)
    texts = pc.if_else(whole, column, pc.if_else(quoted, inner, pa.scalar(None, pa.binary())))
    others = pc.and_(pc.is_null(texts), pc.greater(pc.binary_length(column), 0))
    rest = {row: tokens[row] for row in pc.indices_nonzero(others).to_pylist()}
    rest = {row: token for row, token in rest.items() if token != b"null"}
    escaped = {row: _text.decode(token).encode() for row, token in rest.items() if token[0] == 34}
    faults = dict.fromkeys(rest.keys() - escaped.keys(), no_scalar(path))
    if escaped:
        known = texts.to_pylist()
        for row, text in escaped.items():
            known[row] = text
        texts = pa.array(known, pa.binary())
    return shortened(texts, faults, path)
