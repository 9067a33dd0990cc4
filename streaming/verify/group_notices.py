"""Notices of groups: each reports one change, in its place, and whom it concerns gets it once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streaming.verify.faults import Verdict
from streaming.verify.histories import text
from streaming.verify.notices import Notice

if TYPE_CHECKING:
    from streaming.verify.commands import Event

WORDS = {"removed": "group-removed", "joined": "", "left": ""}
CHANGED = ("group-added", "group-changed", "group-removed")


@dataclass(frozen=True, slots=True)
class Given:
    """Who got a notice, where, and the last version of the group's that it had before; -1: none."""

    key: bytes
    notice: Notice
    where: str
    version: int


def allows(notice: Notice, version: int) -> bool:
    """Return whether a message of this version may come behind the notice."""
    version_said = notice.detail.get("version")
    return type(version_said) is not int or version >= version_said


def judge_notices(verdict: Verdict, notices: Sequence[Given], events: Sequence[Event]) -> None:
    """Each notice has the event that it reports, and comes once, behind no later version."""
    changes = {event.fields["id"]: event for event in events if event.kind in CHANGED}
    seen: defaultdict[Any, set[bytes]] = defaultdict(set)
    for each in notices:
        notice, name = each.notice, each.notice.detail.get("id")
        event = changes.get(name) if isinstance(name, str) else None
        if event is None:
            verdict.find("wrong-notice", f"{each.where} reports {name}, which is not a change")
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
            verdict.find("wrong-notice", f"{witness}, and reports version {version}")
    for name, keys in seen.items():
        members = changes[name].fields.get("members")
        missing = {str(each).encode() for each in members or ()} - keys
        if missing:
            witness = f"{changes[name].where} has notices for {len(keys)} subscribers"
            verdict.find("wrong-notice", f"{witness}, not to {text(min(missing))}")
