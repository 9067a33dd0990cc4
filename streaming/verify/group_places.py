"""Commands in the inputs of groups: each stands where it lies among the messages to its group."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from math import inf

from streaming.places import Place
from streaming.verify.added import NUMBER_MAX
from streaming.verify.columns import Column, paced
from streaming.verify.commands import DONE, Command, answered_at
from streaming.verify.faults import Verdict
from streaming.verify.inputs import Inputs
from streaming.verify.memberships import Group

Names = Iterable[tuple[bytes, int, int]]
"""Group, version and number of each message."""


def judge_places(
    verdict: Verdict,
    commands: Iterable[Command],
    events: Mapping[Place, int],
    names: Names,
    inputs: Inputs,
    of: Column,
) -> None:
    """What a partition has of a group before a change has a lower version, what is behind it not.

    ``events``: by a command's place the version that its event names; ``of``: each message's
    input, below 0 where unknown.
    """
    lines: dict[tuple[str, int, bytes], list[tuple[int, int, str]]] = {}
    for command in commands:
        done = command.in_input and command.answered and command.answers[0].kind == DONE
        if done and command.place in events:
            topic, partition, offset = command.place
            line = lines.setdefault((topic, partition, command.subject.encode()), [])
            line.append((offset, events[command.place], command.where))
    if not lines:
        return
    for message, (group, version, _) in paced(enumerate(names)):
        if of[message] >= 0:
            where = inputs.partitions[inputs.partition[of[message]]]
            if (where.topic, where.number, group) in lines:
                name = (where.topic, where.number, group)
                lines[name].append((inputs.offset[of[message]], version, ""))
    for line in lines.values():
        _judge_line(verdict, sorted(line))


def _judge_line(verdict: Verdict, line: Iterable[tuple[int, int, str]]) -> None:
    """Changes and messages of a partition in order: offset, version, where a change lies, or ""."""
    highest, begun, change = -1, -1, ""
    for _, version, place in line:
        if version < begun or (place and version <= highest):
            witness = f"{place or change} has not its place among the messages to its group"
            verdict.find("sender-order", witness)
        highest = max(highest, version)
        if place:
            begun, change = version, place


@dataclass(frozen=True, slots=True)
class _End:
    """A removal that is a record of an input.

    ``since``: where the life that it ends began, None for before all commands; ``next_version``:
    the first one of the group's next life, None where there is none.
    """

    command: Command
    since: Place | None
    next_version: int | None

    def had_ended(self, version: int) -> bool:
        """Return whether a version is one of the life that ends here, or of an earlier one."""
        return self.next_version is None or version < self.next_version

    @property
    def begun(self) -> float:
        """The offset behind which its partition has the life that ends here; inf: not known."""
        if self.since is None:
            return -1
        return self.since[2] if self.since[:2] == self.command.place[:2] else inf


class _Line:
    """The removals of a group in one partition, by rising offset."""

    def __init__(self, ends: Iterable[_End]) -> None:
        self._ends = sorted(ends, key=lambda end: end.command.place)
        self._offsets = [end.command.place[2] for end in self._ends]
        versions = (inf if end.next_version is None else end.next_version for end in self._ends)
        self._ended = [*accumulate(versions, max)]
        self._begun = [*accumulate((end.begun for end in reversed(self._ends)), min)][::-1]

    def ended(self, offset: int, version: int) -> _End | None:
        """Return a removal before an offset that a message of this version cannot be behind."""
        at = bisect_left(self._offsets, offset)
        if not at or self._ended[at - 1] <= version:
            return None
        return next(end for end in reversed(self._ends[:at]) if end.had_ended(version))

    def ends(self, offset: int) -> _End | None:
        """Return a removal behind an offset of which the life had begun before that."""
        at = bisect_left(self._offsets, offset)
        if at == len(self._ends) or self._begun[at] >= offset:
            return None
        return next(end for end in self._ends[at:] if end.begun < offset)


def judge_removals(
    verdict: Verdict,
    groups: Mapping[bytes, Group],
    events: Mapping[Place, int],
    names: Names,
    inputs: Inputs,
    of: Column,
    absent: Iterable[int],
) -> None:
    """What a partition has before a removal finds the group there, and what is behind it does not.

    ``absent``: the inputs that were rejected as their group was not there.

    As far as the topics show: a life that began in another partition may have begun too late, and
    who removed a group among others in one batch is not known. See `judge_places`.
    """
    ends: dict[tuple[str, int, bytes], list[_End]] = defaultdict(list)
    for name, group in groups.items():
        for end in _ends(group, events):
            topic, partition, _ = end.command.place
            ends[topic, partition, name].append(end)
    if not ends:
        return
    lines = {place: _Line(there) for place, there in ends.items()}

    def line_of(record: int) -> _Line | None:
        where = inputs.partitions[inputs.partition[record]]
        return lines.get((where.topic, where.number, inputs.headers[record][0][1] or b""))

    for message, (_, version, _) in paced(enumerate(names)):
        line = line_of(of[message]) if of[message] >= 0 else None
        found = line.ended(inputs.offset[of[message]], version) if line is not None else None
        if found is not None:
            witness = f"{inputs.where(of[message])} was delivered, behind {found.command.where}"
            verdict.find("sender-order", f"{witness}, which had removed its group")
    for record in absent:
        line = line_of(record)
        found = line.ends(inputs.offset[record]) if line is not None else None
        if found is not None:
            witness = f"{inputs.where(record)} was rejected, as if its group were not there,"
            verdict.find("sender-order", f"{witness} before {found.command.where} removed it")


def judge_absences(
    verdict: Verdict,
    groups: Mapping[bytes, Group],
    names: Names,
    inputs: Inputs,
    of: Column,
    absent: Iterable[int],
) -> None:
    """A group that was never removed stays; one version of a group has no removal within.

    ``absent``: see :func:`judge_removals`. What a partition has of a group around such an input
    says whether the group was there.
    """
    asked: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for record in sorted(absent, key=inputs.offset.__getitem__):
        asked[inputs.partition[record], inputs.headers[record][0][1] or b""].append(record)
    lines = {place: _Around([inputs.offset[one] for one in its]) for place, its in asked.items()}
    for message, (name, version, _) in paced(enumerate(names) if asked else ()):
        line = lines.get((inputs.partition[of[message]], name)) if of[message] >= 0 else None
        if line is not None:
            line.take(inputs.offset[of[message]], version)
    for (partition, name), records in asked.items():
        never = not groups.get(name, Group()).removed
        for record, (before, after) in zip(records, lines[partition, name].found(), strict=True):
            if before[0] >= 0 and (never or before[1] == after[1]):
                witness = f"{inputs.where(record)} was rejected, as if its group were not there"
                there = f"at offset {before[0]} it was, and it was not removed since"
                verdict.find("wrong-reason", f"{witness}: {there}")


class _Around:
    """The messages (offset, version) of a group in a partition that are nearest to some offsets.

    Only these are kept: the others may be all records of a topic.
    """

    def __init__(self, offsets: list[int]) -> None:
        self.offsets = offsets
        self.before = [(-1, -1)] * len(offsets)
        self.after = [(NUMBER_MAX, -1)] * len(offsets)

    def take(self, offset: int, version: int) -> None:
        """Take a message, in any order."""
        at = bisect_left(self.offsets, offset)
        if at < len(self.offsets):
            self.before[at] = max(self.before[at], (offset, version))
        if at:
            self.after[at - 1] = min(self.after[at - 1], (offset, version))

    def found(self) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Yield the nearest messages before and behind each offset; version -1: there is none."""
        after = [*accumulate(reversed(self.after), min)]
        return zip(accumulate(self.before, max), reversed(after), strict=True)


def _ends(group: Group, events: Mapping[Place, int]) -> Iterable[_End]:
    """The removals in inputs that are known to end one life of a group."""
    commands = [command for command, _ in group.done]
    if not all(command.answered for command in commands):
        return
    removed_at: dict[str, set[tuple[str, int]]] = defaultdict(set)
    next_adds: list[Command | None] = [None]
    for command in reversed(commands):
        if command.op == "remove":
            removed_at[answered_at(command)].add(command.place[:2])
        next_adds.append(command if command.op == "add" else next_adds[-1])
    before = None
    for command in commands:
        next_adds.pop()
        before = command if command.op == "add" else before
        if command.op != "remove" or not command.in_input:
            continue
        behind = next_adds[-1]
        places = removed_at[answered_at(command)].union(
            near.place[:2]
            for near in (before, behind)
            if near and answered_at(near) == answered_at(command)
        )
        if len(places) > 1 or (before is None and not group.configured):
            continue
        if behind is not None and behind.place not in events:
            continue
        yield _End(
            command,
            before.place if before is not None else None,
            events[behind.place] if behind is not None else None,
        )
