"""Commands that change groups: reading them, and answering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streaming.arrow import output
from streaming.disciplines.commands import Refused, name_fault, own_id, read_object
from streaming.disciplines.plan import Plan
from streaming.settings.values import SUBSCRIBER, topic_fault

MEMBERS_MAX = 10_000
EVENTS = {"add": "group-added", "set": "group-changed", "remove": "group-removed"}


@dataclass(frozen=True, slots=True)
class Command:
    """A command as it was read; ``reason`` and ``detail`` say why it is refused, if it is."""

    id: str | None
    op: str = ""
    group: str = ""
    members: tuple[str, ...] = ()
    reason: str = ""
    detail: str = ""

    def answers(
        self,
        pipeline: str,
        place: Mapping[str, Any],
        now_ms: int,
        reason: str,
        detail: str,
        version: int | None,
    ) -> list[output.Event]:
        """Events, with their keys: what came of it, and how the group is now."""
        if reason:
            more = {"reason": reason, "detail": detail}
            return [output.answer(pipeline, place, self.id, now_ms, more)]
        own = {"op": self.op, "group": self.group}
        done = output.answer(pipeline, place, self.id, now_ms, own)
        name = EVENTS[self.op]
        change = {
            **output.event(pipeline, name, place, now_ms),
            "command": self.id,
            **place,
            "group": self.group,
        }
        if version is not None:
            change |= {"version": version, "members": sorted(set(self.members))}
        return [done, (self.group.encode(), change)]


def read_command(value: bytes | None, plan: Plan) -> Command:
    """A command. Members have to fit into the output's name where it holds `{subscriber}`."""
    own: str | None = None
    try:
        found = read_object(value)
        own = own_id(found)
        return _read(found, own, plan)
    except Refused as refused:
        return Command(own, reason=refused.reason, detail=refused.detail)


def _read(found: Mapping[str, Any], own: str | None, plan: Plan) -> Command:
    op, group = found.get("op"), found.get("group")
    if not isinstance(op, str) or op not in EVENTS:
        raise Refused("unknown-op", f"op is none of {', '.join(EVENTS)}")
    if wrong := name_fault(group):
        raise Refused("bad-group", f"the group's name {wrong}")
    members = found.get("members", []) if op != "remove" else []
    if not isinstance(members, list) or len(members) > MEMBERS_MAX:
        raise Refused("bad-members", f"members is no list of at most {MEMBERS_MAX} names")
    for each in members:
        wrong = name_fault(each) or _topic_fault(each, plan)
        if wrong:
            raise Refused("bad-members", f"a member's name {wrong}")
    return Command(own, op, str(group), tuple(members))


def _topic_fault(member: str, plan: Plan) -> str:
    """What is wrong with a member's own topic, if members have one."""
    if SUBSCRIBER not in plan.output:
        return ""
    topic = plan.output.replace(SUBSCRIBER, member)
    if topic.replace(".", "_") in {
        each.replace(".", "_") for each in (*plan.reads, plan.rejects, plan.events)
    }:
        return f"gives the topic {topic}, which the pipeline uses itself"
    wrong = topic_fault(topic)
    return f"gives no topic: {wrong}" if wrong else ""
