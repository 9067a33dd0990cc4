"""Events `group-moved`: on a network a change begins new versions of connected groups, too."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from streaming.verify.commands import REFUSED, Command, Event, coordinates
from streaming.verify.faults import Verdict
from streaming.verify.group_deliveries import GroupDeliveries
from streaming.verify.group_notices import versions_begun
from streaming.verify.histories import text
from streaming.verify.memberships import Group

MOVED = "group-moved"
BEGINNING = ("group-added", "group-changed", MOVED)
"""Events that name the version that they begin."""


def judge_moves(
    verdict: Verdict,
    groups: Mapping[bytes, Group],
    events: Sequence[Event],
    commands: Iterable[Command],
) -> None:
    """Each event is about a command that was done, and a group that there is.

    All groups that one change moves have one version.
    """
    at = {command.place: command for command in commands}
    begun = versions_begun(events)
    for event in (each for each in events if each.kind == MOVED):
        place = coordinates(event)
        command = at.get(place) if place is not None else None
        if command is None or not command.op or _is_refused(command):
            wrong = f"no command at {place} was done"
            verdict.find("invented-event", f"{event.where} ({MOVED}): {wrong}")
        elif event.key not in groups:
            wrong = "there is no such group"
            verdict.find("invented-event", f"{event.where} ({MOVED}): {wrong}")
        elif place in begun and event.fields.get("version") != begun[place]:
            wrong = f"{command.where} began version {begun[place]}"
            verdict.find("wrong-event", f"{event.where} ({MOVED}): {wrong}")


def _is_refused(command: Command) -> bool:
    return any(answer.kind == REFUSED for answer in command.answers[:1])


def judge_beginnings(
    verdict: Verdict,
    groups: Mapping[bytes, Group],
    events: Sequence[Event],
    deliveries: GroupDeliveries,
    *,
    due: bool,
) -> None:
    """Each version of a group has the event that began it, but for the first of all.

    If commands are not ``due``, it may be missing yet; not if a later version has its event, since
    those of a group lie in one partition.
    """
    begun: defaultdict[bytes, set[int]] = defaultdict(set)
    unnamed: Counter[bytes] = Counter()
    for event in events:
        if event.kind in BEGINNING and event.key is not None:
            version = event.fields.get("version")
            if type(version) is int:
                begun[event.key].add(version)
            else:
                unnamed[event.key] += 1
    for name, versions in deliveries.versions.items():
        if name not in groups:
            continue
        known = begun[name]
        without = sorted(set(versions) - known)
        if without and groups[name].configured and without[0] <= min({*versions, *known}):
            del without[0]
        missing = [each for each in without if due or each < max(known, default=-1)]
        for version in missing[unnamed[name] :]:
            message = versions[version].messages[0]
            witness = f"version {version} of {text(name)} has no event that began it"
            first = f"{deliveries.name(message)}, got by"
            where = deliveries.histories.first_place(message)
            verdict.find("missing-event", f"{witness}; {first} {where}")
