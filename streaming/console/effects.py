"""What a command about a group would change, before it is sent: members, and overlaps.

Worked out from the groups as the events topic reports them; the command then names the version
that this was about, so what was shown is what happens or nothing does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sequencer.groups.network.overlaps import double_overlaps

if TYPE_CHECKING:
    from streaming.verify.current import Listed


Members = Mapping[str, Collection[str]]
Pair = tuple[str, str]
"""Two groups, in order."""


@dataclass(frozen=True, slots=True)
class GroupCommand:
    """A command about a group; ``members`` of add and set, `member` of join and leave."""

    op: str
    group: str
    members: tuple[str, ...] = ()
    if_version: int | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a command would do; ``refused``: why it would do nothing, empty where it would.

    ``begins`` and ``ends``: overlaps whose numbers would begin at 0, or end; ``goes_on``: how many
    others the group has.
    """

    refused: str = ""
    version: int | None = None
    joined: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    members: int = 0
    begins: list[Pair] = field(default_factory=list)
    ends: list[Pair] = field(default_factory=list)
    goes_on: int = 0


def of(groups: Mapping[str, Listed], command: GroupCommand) -> Effect:
    """Return the effect of a command on the present groups."""
    refused = _refused(groups, command)
    if refused:
        return Effect(refused)
    before = {name: listed.members for name, listed in groups.items()}
    changed = after(before, command)
    old, new = (set(each.get(command.group, ())) for each in (before, changed))
    pairs = [
        {overlap.pair for overlap in double_overlaps(each) if command.group in overlap.pair}
        for each in (before, changed)
    ]
    listed = groups.get(command.group)
    return Effect(
        version=listed.version if listed else None,
        joined=sorted(new - old),
        left=sorted(old - new),
        members=len(new),
        begins=sorted(pairs[1] - pairs[0]),
        ends=sorted(pairs[0] - pairs[1]),
        goes_on=len(pairs[0] & pairs[1]),
    )


def after(groups: Members, command: GroupCommand) -> dict[str, list[str]]:
    """Return the members of all groups after a command; as they were where it cannot be done."""
    changed = {name: sorted(members) for name, members in groups.items()}
    there, given = set(changed.get(command.group, ())), set(command.members)
    if command.op == "remove":
        changed.pop(command.group, None)
        return changed
    members = {"join": there | given, "leave": there - given}.get(command.op, given)
    if members:
        changed[command.group] = sorted(members)
    return changed


def _refused(groups: Mapping[str, Listed], command: GroupCommand) -> str:
    there = groups.get(command.group)
    if command.op == "add":
        if there is not None:
            return f"there is a group {command.group!r} already; set, join and leave change it"
        return "" if command.members else "a group needs a member"
    if there is None:
        return f"there is no group {command.group!r}"
    if command.op == "set" and not command.members:
        return "a group needs a member; remove ends it"
    if command.op == "leave" and not set(there.members) - set(command.members):
        return "its last member cannot leave; remove ends the group"
    return ""
