"""Commands that change groups: reading them, and answering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streaming.commands import Refused, name_fault, own_id, read_object
from streaming.config.values import SUBSCRIBER, topic_fault
from streaming.plan import GroupPlan

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
        at: str,
        reason: str,
        detail: str,
        version: int | None,
    ) -> list[tuple[bytes, dict[str, Any]]]:
        """Events, with their keys: what came of it, and how the group is now."""
        where = f"{place['topic']}:{place['partition']}:{place['offset']}"
        base = {"at": at, "command": self.id, **place}
        own = (self.id or "").encode()
        if reason:
            event = {"event": "command-refused", "id": f"{pipeline}:command:{where}", **base}
            return [(own, {**event, "reason": reason, "detail": detail})]
        done = {"event": "command-done", "id": f"{pipeline}:command:{where}", **base}
        name = EVENTS[self.op]
        change: dict[str, Any] = {"event": name, "id": f"{pipeline}:{name}:{where}", **base}
        change["group"] = self.group
        if version is not None:
            change |= {"version": version, "members": sorted(set(self.members))}
        return [(own, {**done, "op": self.op, "group": self.group}), (self.group.encode(), change)]


def read_command(value: bytes | None, plan: GroupPlan) -> Command:
    """A command. Members have to fit into the output's name where it holds `{subscriber}`."""
    own: str | None = None
    try:
        found = read_object(value)
        own = own_id(found)
        return _read(found, own, plan)
    except Refused as refused:
        return Command(own, reason=refused.reason, detail=refused.detail)


def _read(found: Mapping[str, Any], own: str | None, plan: GroupPlan) -> Command:
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


def _topic_fault(member: str, plan: GroupPlan) -> str:
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
