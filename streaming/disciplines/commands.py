"""What commands of all disciplines have in common: a JSON object with names in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from streaming.arrow.columns import flat, last_headers
from streaming.arrow.json_object import object_in
from streaming.disciplines.plan import Plan

COMMAND_BYTES_MAX = 1_000_000
NAME_BYTES_MAX = 249
ID_BYTES_MAX = 10_000
SHOWN_MAX = 100
"""Characters of an unknown field's name in an answer."""
SIGNED = ("by", "why")
"""Fields of a command that stand in its answer."""


class CommandRefused(Exception):  # noqa: N818  (an answer, no fault)
    """Why a command cannot be carried out: a word and a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def read_object(value: bytes | None) -> dict[str, Any]:
    """The command's JSON object. Raises CommandRefused where there is none."""
    if len(value or b"") > COMMAND_BYTES_MAX:
        raise CommandRefused("unreadable", f"no JSON object of at most {COMMAND_BYTES_MAX} bytes")
    command = object_in(value)
    if command is None:
        raise CommandRefused("unreadable", "no JSON object")
    return command


def read_request(value: bytes | None, op: str | None) -> dict[str, Any]:
    """Return a command's JSON object; of a record of an input its header names the operation."""
    request = read_object(value)
    return request if op is None else {**request, "op": op}


def require_known(request: Mapping[str, Any], fields: Collection[str], asked: str | None) -> None:
    """Raise CommandRefused where a command has another field: a slip of the pen must not act.

    ``asked``: the operation of a record of an input, which may have fields for other readers.
    """
    strange = sorted(set(request) - {*fields, "op", "id", *SIGNED})
    if strange and asked is None:
        raise unknown_field(request["op"], strange[0])


def unknown_field(op: str, name: str) -> CommandRefused:
    """Return the refusal; a name may be as long as a command, which an answer cannot be."""
    return CommandRefused("unknown-field", f"{op} knows no {name[:SHOWN_MAX]!r}")


def names_in(request: Mapping[str, Any], fields: Sequence[str]) -> dict[str, str]:
    """Return those of a command's fields that are names: what the answer repeats if refused."""
    return {name: request[name] for name in fields if not name_fault(request.get(name))}


def asked_in(records: pa.Table, allowed: Collection[str]) -> dict[int, str]:
    """Return the rows of inputs (RECORD) that are commands, ascending, with their operations.

    These are the records whose last header `op` names one that is ``allowed``.
    """
    if not allowed or not len(records):
        return {}
    ((ops, _),) = last_headers(flat(records["headers"]), ["op"])
    coded = ops.dictionary_encode()
    names = [name.decode(errors="replace") for name in coded.dictionary.to_pylist()]
    codes = coded.indices.fill_null(-1).to_pylist()
    named = {code: name for code, name in enumerate(names) if name in allowed}
    return {row: named[code] for row, code in enumerate(codes) if code in named}


def stretches(count: int, asked: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield the rows between commands (half-open); a command, if any, stands where one ends."""
    first = 0
    for row in asked:
        yield first, row
        first = row + 1
    yield first, count


def own_id(request: dict[str, Any]) -> str | None:
    """The id that the command gives itself, if it is a text, and not too long for an answer."""
    command_id = request.get("id")
    if (
        not isinstance(command_id, str)
        or not is_unicode(command_id)
        or len(command_id.encode()) > ID_BYTES_MAX
    ):
        return None
    return command_id


def signature(request: Mapping[str, Any]) -> dict[str, str]:
    """Return who gave a command and why (`by`, `why`), as far as it says so.

    Raises CommandRefused where one of them is not text, or too long for an answer.
    """
    for name in SIGNED:
        if name not in request:
            continue
        text = request[name]
        if not isinstance(text, str) or not is_unicode(text):
            raise CommandRefused(f"bad-{name}", f"{name} is not text")
        if len(text.encode()) > ID_BYTES_MAX:
            raise CommandRefused(f"bad-{name}", f"{name} is longer than {ID_BYTES_MAX} bytes")
    return {name: request[name] for name in SIGNED if name in request}


def name_fault(name: Any) -> str:
    """What is wrong with a name; empty where nothing is."""
    if not isinstance(name, str) or not name:
        return "is not text, or empty"
    if not is_unicode(name):
        return "is not valid Unicode"
    size = len(name.encode())
    return f"is longer than {NAME_BYTES_MAX} bytes" if size > NAME_BYTES_MAX else ""


def place_of(row: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """Topic, partition and offset of a row of RECORD, as events tell them."""
    topic = plan.reads[row["topic"]]
    return {"topic": topic, "partition": row["partition"], "offset": row["offset"]}


def is_unicode(text: str) -> bool:
    """Return whether a text has no lone surrogates, which JSON can write and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
