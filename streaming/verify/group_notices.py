"""Notices of groups: each tells of one change, in its place, and whom it concerns gets it once."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streaming.verify.added import number, tail
from streaming.verify.faults import Verdict
from streaming.verify.histories import text
from streaming.verify.records import Record

if TYPE_CHECKING:
    from streaming.verify.commands import Event

NAMES = ("notice", "detail", "sequence", "incarnation")
WORDS = {"removed": "group-removed", "joined": "", "left": ""}
CHANGED = ("group-added", "group-changed", "group-removed")


@dataclass(frozen=True, slots=True)
class GroupNotice:
    """What a notice says: its word, and the event of the change."""

    word: str
    detail: Mapping[str, Any]
    sequence: int
    incarnation: int

    def allows(self, version: int) -> bool:
        """Whether a message of this version may come behind it."""
        version_said = self.detail.get("version")
        return type(version_said) is not int or version >= version_said


@dataclass(frozen=True, slots=True)
class Given:
    """Who got a notice, where, and the last version of the group's that it had before; -1: none."""

    key: bytes
    notice: GroupNotice
    where: str
    version: int


def read_notice(record: Record, prefix: str) -> GroupNotice | None:
    """What a record says if it is a notice; else None."""
    values = tail(record, prefix, NAMES)
    if values is None or record.value is not None or len(record.headers) != len(NAMES):
        return None
    word, detail, sequence, incarnation = values
    try:
        fields = json.loads(detail or b"")
    except (ValueError, RecursionError):
        return None
    if (word or b"").decode(errors="replace") not in WORDS or not isinstance(fields, dict):
        return None
    return GroupNotice((word or b"").decode(), fields, number(sequence), number(incarnation))


def judge_notices(verdict: Verdict, notices: Sequence[Given], events: Sequence[Event]) -> None:
    """Each notice has the event that it tells of, and comes once, behind no later version."""
    changes = {event.fields["id"]: event for event in events if event.kind in CHANGED}
    seen: defaultdict[Any, set[bytes]] = defaultdict(set)
    for each in notices:
        notice, name = each.notice, each.notice.detail.get("id")
        event = changes.get(name)
        if event is None:
            verdict.find("wrong-notice", f"{each.where} tells of {name}, which is no change")
            continue
        fields = event.fields
        version = fields.get("version")
        same = all(notice.detail.get(field) == fields.get(field) for field in ("group", "version"))
        if not same or (notice.word == "removed") != (event.kind == "group-removed"):
            verdict.find("wrong-notice", f"{each.where} does not tell what {event.where} does")
        if each.key in seen[name]:
            verdict.find("wrong-notice", f"{each.where}: {text(each.key)} got one of it before")
        seen[name].add(each.key)
        if type(version) is int and each.version >= version:
            witness = f"{each.where} is behind a message of version {each.version}"
            verdict.find("wrong-notice", f"{witness}, and tells of version {version}")
    for name, keys in seen.items():
        members = changes[name].fields.get("members")
        missing = {str(each).encode() for each in members or ()} - keys
        if missing:
            witness = f"{changes[name].where} has notices for {len(keys)} subscribers"
            verdict.find("wrong-notice", f"{witness}, not to {text(min(missing))}")
