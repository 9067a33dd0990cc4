"""Who is in a group: its memberships from configuration and commands, and which a version has."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from streaming.verify.commands import DONE, Command, Event
from streaming.verify.faults import Verdict

OPS: dict[str, tuple[str, str | None]] = {
    "add": ("group", "members"),
    "remove": ("group", None),
    "set": ("group", "members"),
}
EVENTS = {"add": "group-added", "remove": "group-removed", "set": "group-changed"}
FIRST = ("group-added", 0)
"""The event that a group of the configuration may have before all commands."""

HARD = 2**40
"""What a certain fault weighs against a delivery that may come yet."""

Members = frozenset[bytes]


@dataclass(slots=True)
class Group:
    """A group's memberships, one after the other, and what was done to it.

    ``removed``: when it was removed, where known. ``steady``: it has one membership for ever.
    """

    memberships: list[Members] = field(default_factory=list)
    configured: bool = False
    added: bool = False
    removed: list[str] = field(default_factory=list)
    done: list[Command] = field(default_factory=list)

    @property
    def steady(self) -> bool:
        """Whether the membership of the configuration is the only one."""
        return self.configured and not self.added and not self.removed and not self.done


def replay(
    verdict: Verdict,
    configured: Mapping[str, frozenset[str]],
    commands: Mapping[str, Sequence[Command]],
) -> dict[bytes, Group]:
    """The groups through all commands; answers that cannot be right are told.

    A command that has no answer yet may have taken effect: its membership is a possible one.
    """
    groups: dict[bytes, Group] = {}
    for name, members in configured.items():
        groups[name.encode()] = Group([_keys(members)], configured=True)
    for name, changes in commands.items():
        group = groups.setdefault(name.encode(), Group())
        there = group.configured
        certain = True
        for command in changes:
            if not command.done:
                continue
            certain = certain and command.answered
            fits = there != (command.op == "add")
            if not fits and not command.answered:
                continue  # it will be refused
            if certain and not fits:
                state = "exists" if there else "is not there"
                witness = f"{command.answers[0].told} says {DONE}, but group {name} {state} then"
                verdict.find("wrong-answer", f"{witness}: {command.told} had to be refused")
                continue
            group.done.append(command)
            there = command.op != "remove"
            if there:
                group.memberships.append(_keys(command.others))
                group.added = group.added or command.op == "add"
            else:
                at = command.answers[0].fields.get("at") if command.answered else None
                group.removed.append(str(at or ""))
    return groups


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


def judge_events(
    verdict: Verdict, groups: Mapping[bytes, Group], events: Sequence[Event], *, due: bool
) -> dict[tuple[bytes, int], Members]:
    """Each change has its event, in order. Memberships by version where events name both.

    A change without an event counts only if it is ``due``, or later ones have theirs.
    """
    pinned: dict[tuple[bytes, int], Members] = {}
    events_of: dict[bytes, list[Event]] = {}
    for event in events:
        if event.kind in EVENTS.values():
            events_of.setdefault(event.key or b"", []).append(event)
            members, version = event.fields.get("members"), event.fields.get("version")
            if isinstance(members, list) and type(version) is int:
                pinned[event.key or b"", version] = _keys(frozenset(map(str, members)))
    for name in sorted(groups.keys() | events_of.keys()):
        _judge_group_events(verdict, name, groups.get(name), events_of.get(name, []), due=due)
    return pinned


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
    verdict: Verdict, name: bytes, group: Group | None, events: list[Event], *, due: bool
) -> None:
    expected = _changes(group) if group is not None else []
    members = group.memberships[0] if group is not None and group.configured else None
    for number, event in enumerate(events):
        kind = EVENTS[expected[0].op] if expected else None
        members_told = event.fields.get("members")
        members_told = (
            _keys(frozenset(map(str, members_told))) if isinstance(members_told, list) else None
        )
        # A group gets a new version, too, when one that it overlaps with changes.
        if event.kind == kind == EVENTS["set"] and members_told == members != _keys(
            expected[0].others
        ):
            continue
        if event.kind != kind:
            same = members is not None and members_told in (None, members)
            if same and (event.kind == "group-changed" or (event.kind, number) == FIRST):
                continue
            later = [EVENTS[command.op] for command in expected]
            if event.kind not in later:
                known = f"no command that was done to group {name.decode()} explains it"
                verdict.find("invented-event", f"{event.told} ({event.kind}): {known}")
                continue
            while EVENTS[expected[0].op] != event.kind:
                _missing(verdict, expected.pop(0), event)
        command = expected.pop(0)
        members = None if command.op == "remove" else _keys(command.others)
        if members_told is not None and members is not None and members_told != members:
            verdict.find(
                "wrong-event", f"{event.told}: its members are not those of {command.told}"
            )
    for command in expected:
        if due:
            _missing(verdict, command, None)


def _changes(group: Group) -> list[Command]:
    """What was done to a group, but for a `set` of the members that it had."""
    changes = []
    members = group.memberships[0] if group.configured else None
    for command in group.done:
        before, members = members, None if command.op == "remove" else _keys(command.others)
        if command.op != "set" or members != before:
            changes.append(command)
    return changes


def _missing(verdict: Verdict, command: Command, after: Event | None) -> None:
    if not command.answered:
        return  # it may have been refused
    why = f", though {after.told} is there" if after else ""
    verdict.find("missing-event", f"{command.told} has no event {EVENTS[command.op]}{why}")


@dataclass(slots=True)
class Version:
    """The messages of a group under one version: numbers, rising, and how many each key got."""

    numbers: list[int] = field(default_factory=list)
    messages: list[int] = field(default_factory=list)
    got: dict[bytes, int] = field(default_factory=dict)
    members: Members = frozenset()


def assign(
    versions: Mapping[int, Version],
    group: Group | None,
    last: Mapping[bytes, tuple[int, int]],
    pinned: Mapping[int, Members],
) -> dict[int, int]:
    """For each version the membership (its index) that explains its deliveries best.

    Later versions never have earlier memberships. ``last``: the highest (version, number) that
    each key has of the group. Versions whose events name them are not guessed.
    """
    memberships = group.memberships if group is not None else []
    if not memberships:
        return {}
    best = [0] * len(memberships)
    choices: list[list[int]] = []
    for version in sorted(versions):
        costs = [_cost(version, versions[version], membership, last) for membership in memberships]
        if version in pinned:
            costs = [
                cost + HARD * HARD * (members != pinned[version])
                for cost, members in zip(costs, memberships, strict=True)
            ]
        choice, least, now = [], 0, []
        for index, cost in enumerate(costs):
            least = index if best[index] < best[least] else least
            choice.append(least)
            now.append(best[least] + cost)
        choices.append(choice)
        best = now
    index = best.index(min(best))
    chosen: dict[int, int] = {}
    for version, choice in zip(sorted(versions, reverse=True), reversed(choices), strict=True):
        chosen[version] = index
        index = choice[index]
    return chosen


def _cost(
    number: int, version: Version, members: Members, last: Mapping[bytes, tuple[int, int]]
) -> int:
    """Strays and certain losses, then deliveries that may come yet."""
    hard = sum(count for key, count in version.got.items() if key not in members)
    pending = 0
    for key in members:
        count = len(version.messages) - version.got.get(key, 0)
        lost = passed(number, version, last.get(key)) - version.got.get(key, 0)
        hard += max(0, lost)
        pending += count - max(0, lost)
    return hard * HARD + pending


def passed(number: int, version: Version, last: tuple[int, int] | None) -> int:
    """How many messages of a version one must have who has ``last``."""
    if last is None or last[0] < number:
        return 0
    if last[0] > number:
        return len(version.numbers)
    return bisect_right(version.numbers, last[1])


def _keys(names: frozenset[str] | Sequence[str]) -> Members:
    return frozenset(name.encode() for name in names)
