"""Notices of groups: each reports one change, in its place, and whom it concerns gets it once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streaming.places import Place
from streaming.verify.accounts import REFUSALS
from streaming.verify.commands import Event, coordinates, place_in
from streaming.verify.faults import Verdict
from streaming.verify.histories import text
from streaming.verify.inputs import Ends, is_due
from streaming.verify.memberships import Change, Members
from streaming.verify.notices import Notice

WORDS = {"removed": "group-removed", "joined": "", "left": ""}
CHANGED = ("group-added", "group-changed", "group-removed")
NAMES_MAX = 100
"""Names of a list in a notice's `detail`."""


@dataclass(frozen=True, slots=True)
class Given:
    """Who got a notice, where, and the last version of the group's that it had before; -1: none."""

    key: bytes
    notice: Notice
    where: str
    version: int


def versions_begun(events: Sequence[Event]) -> dict[Place, int]:
    """The versions that changes began, by the places of their commands."""
    begun = {}
    for event in events:
        place, version = coordinates(event), event.fields.get("version")
        if event.kind in CHANGED and place is not None and type(version) is int:
            begun[place] = version
    return begun


def allows(notice: Notice, version: int) -> bool:
    """Return whether a message of this version may come behind the notice."""
    version_said = notice.detail.get("version")
    return type(version_said) is not int or version >= version_said


def judge_notices(
    verdict: Verdict,
    notices: Sequence[Given],
    events: Sequence[Event],
    changes: Mapping[str, Change],
    due: Ends,
) -> None:
    """Each notice has the event that it reports, and comes once, behind no later version.

    Where anyone got one of a change, all whom it concerns do, unless Kafka refused it. What is not
    ``due`` may be missing yet.
    """
    by_id = {event.fields["id"]: event for event in events if event.kind in CHANGED}
    refused = _refused(events)
    seen: defaultdict[str, set[bytes]] = defaultdict(set)
    for each in notices:
        name = each.notice.detail.get("id")
        event = by_id.get(name) if isinstance(name, str) else None
        if name is None or event is None:
            place = place_in(each.notice.detail)
            if place is None or is_due(place, due):
                witness = f"{each.where} reports {name}, which is not a change"
                verdict.find("wrong-notice", witness)
            continue
        _judge_notice(verdict, each, event, changes.get(name))
        if each.key in seen[name]:
            verdict.find("wrong-notice", f"{each.where}: {text(each.key)} got one of it before")
        if each.key in refused[coordinates(event)]:
            witness = f"{each.where}: an event says that {text(each.key)} did not get it"
            verdict.find("wrong-undelivered", witness)
        seen[name].add(each.key)
    for name in seen.keys() & changes.keys():
        place = coordinates(by_id[name])
        missing = changes[name].whom() - seen[name] - refused[place]
        if missing and (place is None or is_due(place, due)):
            witness = f"{by_id[name].where} has notices for {len(seen[name])} subscribers"
            verdict.find("wrong-notice", f"{witness}, not to {text(min(missing))}")


def _refused(events: Sequence[Event]) -> defaultdict[Place | None, set[bytes]]:
    """By the places of what they were to get, the subscribers for whom Kafka refused it."""
    refused: defaultdict[Place | None, set[bytes]] = defaultdict(set)
    for event in events:
        if event.kind == "undelivered" and event.fields.get("reason") in REFUSALS:
            refused[coordinates(event)].add(str(event.fields.get("destination")).encode())
    return refused


def _judge_notice(verdict: Verdict, given: Given, event: Event, change: Change | None) -> None:
    """A notice tells what its event does, to somebody whom it concerns, in its place."""
    notice, version = given.notice, event.fields.get("version")
    fields = _fields(event, change)
    same = all(notice.detail.get(name) == value for name, value in fields.items() if name != "at")
    if not same or (notice.word == "removed") != (event.kind == "group-removed"):
        verdict.find("wrong-notice", f"{given.where} does not tell what {event.where} does")
    elif change is not None and not change.fits(given.key, notice.word):
        witness = f"{given.where}: {event.where} is not {notice.word!r} for {text(given.key)}"
        verdict.find("wrong-notice", witness)
    if type(version) is int and given.version >= version:
        witness = f"{given.where} is behind a message of version {given.version}"
        verdict.find("wrong-notice", f"{witness}, and reports version {version}")


def _fields(event: Event, change: Change | None) -> dict[str, Any]:
    """Return what a notice's `detail` has: the event, with who joined and left, not all members."""
    fields = {name: value for name, value in event.fields.items() if name != "members"}
    if change is None or change.op not in ("add", "set"):
        return fields
    if change.before is None or change.after is None:
        return fields
    return (
        fields
        | _listed("joined", change.after - change.before)
        | _listed("left", change.before - change.after)
        | {"count": len(change.after)}
    )


def _listed(word: str, names: Members) -> dict[str, Any]:
    return {
        word: [name.decode(errors="replace") for name in sorted(names)[:NAMES_MAX]],
        f"{word}_count": len(names),
    }
