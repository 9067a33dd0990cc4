"""What commands of all disciplines have in common: a JSON object with names in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from streaming.disciplines.plan import Plan

COMMAND_BYTES_MAX = 1_000_000
NAME_BYTES_MAX = 249
ID_BYTES_MAX = 10_000


class Refused(Exception):  # noqa: N818  (an answer, no fault)
    """Why a command cannot be carried out: a word and a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


def read_object(value: bytes | None) -> dict[str, Any]:
    """The command's JSON object. Raises Refused where there is none."""
    if value is None or len(value) > COMMAND_BYTES_MAX:
        raise Refused("unreadable", f"no JSON object of at most {COMMAND_BYTES_MAX} bytes")
    try:
        command = json.loads(value)
    except (ValueError, RecursionError):
        command = None
    if not isinstance(command, dict):
        raise Refused("unreadable", "no JSON object")
    return command


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


def name_fault(name: Any) -> str:
    """What is wrong with a name; empty where nothing is."""
    if not isinstance(name, str) or not name:
        return "is no text, or empty"
    if not is_unicode(name):
        return "is no valid Unicode"
    size = len(name.encode())
    return f"is longer than {NAME_BYTES_MAX} bytes" if size > NAME_BYTES_MAX else ""


def place_of(row: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """Topic, partition and offset of a row of RECORD, as events tell them."""
    topic = plan.reads[row["topic"]]
    return {"topic": topic, "partition": row["partition"], "offset": row["offset"]}


def is_unicode(text: str) -> bool:
    """Whether a text has no lone surrogates, which JSON can write and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
