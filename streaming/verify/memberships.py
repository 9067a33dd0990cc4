"""Who is in a group: its memberships from configuration and commands, and which a version has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streaming.arrow.key_text import escaped
from streaming.verify.commands import DONE, Command, Event
from streaming.verify.faults import Verdict

OPS: dict[str, tuple[str, str | None]] = {
    "add": ("group", "members"),
    "remove": ("group", None),
    "set": ("group", "members"),
    "join": ("group", "member"),
    "leave": ("group", "member"),
}
EVENTS = {
    "add": "group-added",
    "remove": "group-removed",
    "set": "group-changed",
    "join": "group-changed",
    "leave": "group-changed",
}
ONE_MEMBER = {"join": "joined", "leave": "left"}
FIRST = ("group-added", 0)
"""The event that a group of the configuration may have before all commands."""

POSSIBLE_MAX = 64
"""Memberships that a group may have after commands without an answer."""

Members = frozenset[bytes]


@dataclass(slots=True)
class Group:
    """A group's memberships, one after the other, and what was done to it.

    ``removed``: when it was removed, where known. ``steady``: it has one membership for ever.
    ``done``: with the memberships that the group may have had after it, none where it was removed.
    """

    memberships: list[Members] = field(default_factory=list)
    configured: bool = False
    added: bool = False
    removed: list[str] = field(default_factory=list)
    done: list[tuple[Command, list[Members]]] = field(default_factory=list)

    @property
    def steady(self) -> bool:
        """Whether the membership of the configuration is the only one."""
        return self.configured and not self.added and not self.removed and not self.done


def replay(
    verdict: Verdict,
    configured: Mapping[str, frozenset[str]],
    commands: Mapping[str, Sequence[Command]],
) -> dict[bytes, Group]:
    """The groups through all commands; answers that cannot be right are faults.

    A command that has no answer yet may have taken effect: its membership is a possible one.
    """
    groups: dict[bytes, Group] = {}
    for name, members in configured.items():
        groups[name.encode()] = Group([_keys(members)], configured=True)
    for name, changes in commands.items():
        group = groups.setdefault(name.encode(), Group())
        there = group.configured
        possible = group.memberships[:] or [frozenset()]
        certain = True
        for command in changes:
            if not command.done:
                continue
            certain = certain and command.answered
            if command.answered and command.op != "add":  # then there was a group
                possible = [members for members in possible if members] or possible
            after = _after(command, possible)
            fits = there != (command.op == "add")
            emptied = fits and command.op == "leave" and not after
            if not command.answered and (emptied or not fits):
                continue  # it will be refused
            if certain and (emptied or not fits):
                state = "exists" if there else "is not there"
                state = "would have no members" if emptied else state
                witness = f"{command.answers[0].where} says {DONE}, but group {name} {state} then"
                verdict.find("wrong-answer", f"{witness}: {command.where} had to be refused")
                continue
            if command.op in ONE_MEMBER and after == possible:
                continue  # nothing was changed
            group.done.append((command, after))
            there = command.op != "remove"
            possible = after if command.answered else _distinct([*possible, *after])
            if there:
                group.memberships += after
                group.added = group.added or command.op == "add"
            else:
                at = command.answers[0].fields.get("at") if command.answered else None
                group.removed.append(str(at or ""))
    return groups


def _after(command: Command, before: Sequence[Members]) -> list[Members]:
    """Return the memberships that a group may have after a command; none where that removes it.

    ``before``: those that it may have had, more than one where some answer is missing.
    """
    named = _keys(command.others)
    if command.op == "remove":
        return []
    if command.op == "join":
        return _distinct(members | named for members in before)
    if command.op == "leave":
        return _distinct(members - named for members in before if members - named)
    return [named]


def _distinct(memberships: Iterable[Members]) -> list[Members]:
    return list(dict.fromkeys(memberships))[-POSSIBLE_MAX:]


def changing(groups: Mapping[bytes, Group]) -> set[bytes]:
    """Groups whose numbers may ever begin again: some subscriber leads to one that was changed."""
    by_member: dict[bytes, set[bytes]] = {}
    for name, group in groups.items():
        for member in frozenset().union(*group.memberships):
            by_member.setdefault(member, set()).add(name)
    reached = {name for name, group in groups.items() if group.done}
    waiting = list(reached)
    while waiting:
        for member in frozenset().union(*groups[waiting.pop()].memberships):
            waiting += by_member[member] - reached
            reached |= by_member.pop(member, set())
            by_member[member] = set()
    return reached


@dataclass(frozen=True, slots=True)
class Change:
    """A group's members before and after a change, None where the topics do not show them."""

    op: str
    before: Members | None
    after: Members | None

    def whom(self) -> Members:
        """The subscribers that it concerns, as far as the topics show them."""
        return (self.before or frozenset()) | (self.after or frozenset())

    def fits(self, key: bytes, word: str) -> bool:
        """Return whether a subscriber may have a notice with this word."""
        if self.before is None or self.after is None:
            return True
        if self.op == "remove":
            wanted = "removed"
        else:
            stays = key in self.after and self.after - self.before
            wanted = "joined" if stays else "left"
        return key in self.whom() and word == wanted


def judge_events(
    verdict: Verdict, groups: Mapping[bytes, Group], events: Sequence[Event], *, due: bool
) -> tuple[dict[tuple[bytes, int], Members], dict[str, Change]]:
    """Each change has its event, in order. Memberships by version where events name both.

    A change without an event counts only if it is ``due``, or later ones have theirs. Also returns
    the changes by the ids of their events.
    """
    changes: dict[str, Change] = {}
    pinned: dict[tuple[bytes, int], Members] = {}
    events_of: dict[bytes, list[Event]] = {}
    for event in events:
        if event.kind in EVENTS.values():
            events_of.setdefault(event.key or b"", []).append(event)
            members, version = event.fields.get("members"), event.fields.get("version")
            if isinstance(members, list) and type(version) is int:
                pinned[event.key or b"", version] = _keys(frozenset(map(str, members)))
    for name in sorted(groups.keys() | events_of.keys()):
        named = _judge_group_events(
            verdict, name, groups.get(name), events_of.get(name, []), changes, due=due
        )
        for version, those in named.items():
            pinned.setdefault((name, version), those)
    return pinned, changes


def judge_versions(
    verdict: Verdict,
    groups: Mapping[bytes, Group],
    versions: Mapping[bytes, Iterable[int]],
    pinned: Mapping[tuple[bytes, int], Members],
) -> None:
    """No group has more versions than it had memberships, and each is the one that events name.

    So what is done to other groups does not move it. An event may be missing yet.
    """
    named: dict[bytes, set[int]] = {}
    for name, version in pinned:
        named.setdefault(name, set()).add(version)
    for name, numbers in versions.items():
        group = groups.get(name, Group())
        known = named.get(name, set()) | ({0} if group.configured else set())
        strange = sorted(set(numbers) - known)
        if len(strange) > max(0, len(group.memberships) - len(known)):
            text = name.decode(errors="replace")
            listed = ", ".join(map(str, sorted(known))) or "none"
            wrong = f"group {text} has versions {', '.join(map(str, strange))}, of no membership"
            verdict.find("wrong-version", f"{wrong}; those of its memberships are {listed}")


def _judge_group_events(
    verdict: Verdict,
    name: bytes,
    group: Group | None,
    events: list[Event],
    changes: dict[str, Change],
    *,
    due: bool,
) -> dict[int, Members]:
    """Judge the events of a group, and put its changes to ``changes``.

    Returns memberships by version where events name the version.
    """
    expected = _changes(group) if group is not None else []
    members = group.memberships[0] if group is not None and group.configured else None
    before: Members | None = members or frozenset()
    named: dict[int, Members] = {}
    for number, event in enumerate(events):
        kind = EVENTS[expected[0][0].op] if expected else None
        members_said = _members_of(event)
        # A group gets a new version, too, when one that it overlaps with changes.
        if (
            event.kind == kind == EVENTS["set"]
            and members_said == members
            and [members] != expected[0][1]
        ):
            continue
        if event.kind != kind:
            same = members is not None and members_said in (None, members)
            if same and (event.kind == "group-changed" or (event.kind, number) == FIRST):
                continue
            later = [EVENTS[command.op] for command, _ in expected]
            if event.kind not in later:
                known = f"no command that was done to group {escaped(name)} explains it"
                verdict.find("invented-event", f"{event.where} ({event.kind}): {known}")
                continue
            while EVENTS[expected[0][0].op] != event.kind:
                _missing(verdict, expected.pop(0)[0], event)
                before = None
        command, after = expected.pop(0)
        members = after[0] if len(after) == 1 else _members_of(event)
        now = frozenset() if command.op == "remove" else members
        changes[event.fields["id"]] = Change(command.op, before, now)
        before = now
        if members is not None and type(version := event.fields.get("version")) is int:
            named[version] = members
        _judge_fields(verdict, event, command, after)
    for command, _ in expected:
        if due:
            _missing(verdict, command, None)
    return named


def _members_of(event: Event) -> Members | None:
    """The members that an event names; None where it names none."""
    members = event.fields.get("members")
    return _keys(frozenset(map(str, members))) if isinstance(members, list) else None


def _judge_fields(
    verdict: Verdict, event: Event, command: Command, after: Sequence[Members]
) -> None:
    """An event has the members after its command, or who joined or left and how many there are.

    Where the command was for one version, the event's is a later one.
    """
    if command.op != "remove" and _members_of(event) not in (None, *after):
        text = f"{event.where}: its members are not those of {command.where}"
        verdict.find("wrong-event", text)
    if command.op in ONE_MEMBER:
        change = (event.fields.get(ONE_MEMBER[command.op]), event.fields.get("count"))
        if change not in [(command.others[0], len(members)) for members in after]:
            verdict.find("wrong-event", f"{event.where} is not about what {command.where} did")
    version = event.fields.get("version")
    if command.if_version is not None and type(version) is int and version <= command.if_version:
        verdict.find("wrong-version", f"{event.where}: {command.where} was for a later version")


def _changes(group: Group) -> list[tuple[Command, list[Members]]]:
    """What was done to a group, but for a `set` of the members that it had."""
    changes = []
    members = group.memberships[:1] if group.configured else []
    for command, after in group.done:
        before, members = members, after
        if command.op != "set" or members != before:
            changes.append((command, after))
    return changes


def _missing(verdict: Verdict, command: Command, after: Event | None) -> None:
    if not command.answered:
        return  # it may have been refused
    why = f", though {after.where} is there" if after else ""
    verdict.find("missing-event", f"{command.where} has no event {EVENTS[command.op]}{why}")


def _keys(names: frozenset[str] | Sequence[str]) -> Members:
    return frozenset(name.encode() for name in names)
