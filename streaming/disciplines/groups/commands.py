"""Commands that change groups: reading them, and answering."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sequencer.change import ChangeError
from streaming.arrow import output
from streaming.disciplines.commands import (
    CommandRefused,
    name_fault,
    names_in,
    own_id,
    place_of,
    read_request,
    require_known,
    signature,
)
from streaming.disciplines.plan import Plan
from streaming.settings.values import SUBSCRIBER, topic_fault

MEMBERS_MAX = 10_000
EVENTS = {
    "add": "group-added",
    "set": "group-changed",
    "remove": "group-removed",
    "join": "group-changed",
    "leave": "group-changed",
}
FIELDS = ("group", "member", "members", "if_version")
ONE_MEMBER = {"join": "joined", "leave": "left"}
"""What is done to one member, and the field of the event that names it."""
MOVED = "group-moved"


@dataclass(frozen=True, slots=True)
class GroupCommand:
    """A command as it was read; ``reason`` and ``detail`` say why it is refused, if it is.

    ``if_version``: the version that the group must have. ``signed``: by whom, and why. ``names``:
    what the answer repeats where it is refused.
    """

    id: str | None
    op: str = ""
    group: str = ""
    members: tuple[str, ...] = ()
    if_version: int | None = None
    signed: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    detail: str = ""

    def repeated(self) -> dict[str, Any]:
        """What the answer repeats where it was carried out."""
        member = {"member": self.members[0]} if self.op in ONE_MEMBER else {}
        return {"op": self.op, "group": self.group, **member, **self.signed}


@dataclass(frozen=True, slots=True)
class Changed:
    """What a command did: the group's version before and now, None where there is no group.

    ``count``: its members now. ``moved``: other groups that have a new version because of it (a
    new path).
    """

    before: int | None
    version: int | None
    count: int
    moved: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Carried:
    """A command that was carried out or refused: the events that answer and tell of it.

    ``change``: the event of the group that it changed, None where it changed nothing.
    """

    events: list[output.Event]
    command: GroupCommand
    change: Mapping[str, Any] | None = None


def carry_out(
    row: Mapping[str, Any],
    op: str | None,
    plan: Plan,
    now_ms: int,
    change: Callable[[GroupCommand], Changed],
) -> Carried:
    """Carry out the command in a row of RECORD; ``op``: the operation, if its header names that.

    ``change`` raises ChangeError where it refuses one.
    """
    command = read_command(row["value"], plan, op)
    place = place_of(row, plan)
    refusal: dict[str, Any] = {
        **command.names,
        "reason": command.reason,
        "detail": command.detail,
        **command.signed,
    }
    if not command.reason:
        try:
            changed = change(command)
        except ChangeError as error:
            refusal |= {"reason": error.reason, "detail": str(error)}
            refusal |= {} if error.version is None else {"version": error.version}
        else:
            return _done(command, changed, plan.pipeline, place, now_ms)
    answer = output.answer(plan.pipeline, place, command.id, now_ms, refusal)
    return Carried([answer], command)


def _done(
    command: GroupCommand, changed: Changed, pipeline: str, place: Mapping[str, Any], now_ms: int
) -> Carried:
    """What came of a command: the answer, how the group is now, and which others moved."""
    answer = command.repeated()
    by_member = command.op in ONE_MEMBER
    if by_member or command.if_version is not None:
        answer |= {} if changed.version is None else {"version": changed.version}
    events = [output.answer(pipeline, place, command.id, now_ms, answer)]
    if by_member and changed.version == changed.before:
        return Carried(events, command)
    name = EVENTS[command.op]
    by = {"command": command.id, **place, "group": command.group}
    change = {**output.event(pipeline, name, place, now_ms), **by}
    if by_member:
        member = {ONE_MEMBER[command.op]: command.members[0]}
        change |= {"version": changed.version, **member, "count": changed.count}
    elif changed.version is not None:
        change |= {"version": changed.version, "members": sorted(set(command.members))}
    events.append((command.group.encode(), change))
    for group, version in sorted(changed.moved.items()):
        event = output.event(pipeline, MOVED, place, now_ms)
        fields = {"id": f"{event['id']}:{group}", "group": group, "version": version}
        events.append((group.encode(), {**event, **by, **fields}))
    return Carried(events, command, change)


def read_command(value: bytes | None, plan: Plan, op: str | None = None) -> GroupCommand:
    """A command; ``op`` where a header names it.

    Members have to fit into the output's name where it holds `{subscriber}`.
    """
    command_id: str | None = None
    signed: dict[str, str] = {}
    names: dict[str, str] = {}
    try:
        request = read_request(value, op)
        command_id = own_id(request)
        names = names_in(request, ("op", "group", "member"))
        signed = signature(request)
        named, group, members = _read(request, plan, op)
        version = _if_version(request, named)
        return GroupCommand(command_id, named, group, members, version, signed, names)
    except CommandRefused as refused:
        return GroupCommand(
            command_id, signed=signed, names=names, reason=refused.reason, detail=refused.detail
        )


def _read(
    request: Mapping[str, Any], plan: Plan, asked: str | None
) -> tuple[str, str, tuple[str, ...]]:
    op, group = request.get("op"), request.get("group")
    if not isinstance(op, str) or op not in EVENTS:
        raise CommandRefused("unknown-op", f"op is none of {', '.join(EVENTS)}")
    require_known(request, FIELDS, asked)
    if wrong := name_fault(group):
        raise CommandRefused("bad-group", f"the group's name {wrong}")
    if op in ONE_MEMBER:
        members, reason, whose = [request.get("member")], "bad-member", "the member's"
    else:
        members = request.get("members", []) if op != "remove" else []
        reason, whose = "bad-members", "a member's"
    if not isinstance(members, list) or len(members) > MEMBERS_MAX:
        raise CommandRefused("bad-members", f"members is not a list of at most {MEMBERS_MAX} names")
    for member in members:
        wrong = name_fault(member) or _topic_fault(member, plan, op)
        if wrong:
            raise CommandRefused(reason, f"{whose} name {wrong}")
    return op, str(group), tuple(members)


def _if_version(request: Mapping[str, Any], op: str) -> int | None:
    """The version that the group must have; None where any will do."""
    if "if_version" not in request:
        return None
    version = request["if_version"]
    if type(version) is not int or op == "add":
        raise CommandRefused("bad-if-version", "if_version is a number, for groups that there are")
    return version


def require_own_topics(command: GroupCommand, plan: Plan, members: Iterable[str]) -> None:
    """ChangeError if Kafka would not take a member's topic beside another's of all ``members``.

    Names that differ in '.' and '_' alone count as equal there.
    """
    if SUBSCRIBER not in plan.output or command.op == "leave":
        return
    known = {name.replace(".", "_"): name for name in members}
    for member in command.members:
        other = known.setdefault(member.replace(".", "_"), member)
        if other != member:
            raise ChangeError(
                "bad-member" if command.op in ONE_MEMBER else "bad-members",
                f"Kafka does not take a topic for {member} beside that of {other}, because '.' and "
                "'_' count as equal; use another name",
            )


def _topic_fault(member: str, plan: Plan, op: str) -> str:
    """What is wrong with a member's own topic, if members have one; any member may leave."""
    if SUBSCRIBER not in plan.output:
        return ""
    topic = plan.output.replace(SUBSCRIBER, member)
    own = (*plan.reads, plan.rejects, plan.events)
    taken = () if op == "leave" else plan.taken
    for used, whose in [(own, "the pipeline uses itself"), (taken, "another pipeline uses")]:
        if topic.replace(".", "_") in {name.replace(".", "_") for name in used}:
            return f"gives the topic {topic}, which {whose}"
    wrong = topic_fault(topic)
    return f"gives no topic: {wrong}" if wrong else ""
