"""Commands that change groups: reading them, and answering."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from sequencer.change import ChangeError
from streaming.arrow import output
from streaming.disciplines.commands import Refused, name_fault, own_id, place_of, read_object
from streaming.disciplines.plan import Plan
from streaming.settings.values import SUBSCRIBER, topic_fault

MEMBERS_MAX = 10_000
EVENTS = {"add": "group-added", "set": "group-changed", "remove": "group-removed"}
MOVED = "group-moved"


@dataclass(frozen=True, slots=True)
class GroupCommand:
    """A command as it was read; ``reason`` and ``detail`` say why it is refused, if it is."""

    id: str | None
    op: str = ""
    group: str = ""
    members: tuple[str, ...] = ()
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Changed:
    """What a command did: the group's version, None where it is no more.

    ``moved``: other groups that have a new version because of it (a new path).
    """

    version: int | None
    moved: Mapping[str, int] = field(default_factory=dict)


def carry_out(
    commands: pa.Table, plan: Plan, now_ms: int, change: Callable[[GroupCommand], Changed]
) -> list[output.Event]:
    """Carry out commands (RECORD) in their order; the events that answer and tell of them.

    ``change`` raises ChangeError where it refuses one.
    """
    events: list[output.Event] = []
    for row in commands.to_pylist():
        command = read_command(row["value"], plan)
        place = place_of(row, plan)
        refusal = {"reason": command.reason, "detail": command.detail}
        if not command.reason:
            try:
                changed = change(command)
            except ChangeError as error:
                refusal = {"reason": error.reason, "detail": str(error)}
            else:
                events += _done(command, changed, plan.pipeline, place, now_ms)
                continue
        events.append(output.answer(plan.pipeline, place, command.id, now_ms, refusal))
    return events


def _done(
    command: GroupCommand, changed: Changed, pipeline: str, place: Mapping[str, Any], now_ms: int
) -> Iterator[output.Event]:
    """What came of a command: the answer, how the group is now, and which others moved."""
    repeated = {"op": command.op, "group": command.group}
    yield output.answer(pipeline, place, command.id, now_ms, repeated)
    name = EVENTS[command.op]
    by = {"command": command.id, **place, "group": command.group}
    change = {**output.event(pipeline, name, place, now_ms), **by}
    if changed.version is not None:
        change |= {"version": changed.version, "members": sorted(set(command.members))}
    yield command.group.encode(), change
    for group, version in sorted(changed.moved.items()):
        event = output.event(pipeline, MOVED, place, now_ms)
        fields = {"id": f"{event['id']}:{group}", "group": group, "version": version}
        yield group.encode(), {**event, **by, **fields}


def read_command(value: bytes | None, plan: Plan) -> GroupCommand:
    """A command. Members have to fit into the output's name where it holds `{subscriber}`."""
    command_id: str | None = None
    try:
        request = read_object(value)
        command_id = own_id(request)
        return _read(request, command_id, plan)
    except Refused as refused:
        return GroupCommand(command_id, reason=refused.reason, detail=refused.detail)


def _read(request: Mapping[str, Any], command_id: str | None, plan: Plan) -> GroupCommand:
    op, group = request.get("op"), request.get("group")
    if not isinstance(op, str) or op not in EVENTS:
        raise Refused("unknown-op", f"op is none of {', '.join(EVENTS)}")
    if wrong := name_fault(group):
        raise Refused("bad-group", f"the group's name {wrong}")
    members = request.get("members", []) if op != "remove" else []
    if not isinstance(members, list) or len(members) > MEMBERS_MAX:
        raise Refused("bad-members", f"members is no list of at most {MEMBERS_MAX} names")
    for member in members:
        wrong = name_fault(member) or _topic_fault(member, plan)
        if wrong:
            raise Refused("bad-members", f"a member's name {wrong}")
    return GroupCommand(command_id, op, str(group), tuple(members))


def _topic_fault(member: str, plan: Plan) -> str:
    """What is wrong with a member's own topic, if members have one."""
    if SUBSCRIBER not in plan.output:
        return ""
    topic = plan.output.replace(SUBSCRIBER, member)
    if topic.replace(".", "_") in {
        used.replace(".", "_") for used in (*plan.reads, plan.rejects, plan.events)
    }:
        return f"gives the topic {topic}, which the pipeline uses itself"
    wrong = topic_fault(topic)
    return f"gives no topic: {wrong}" if wrong else ""
