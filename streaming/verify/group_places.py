"""Commands in the inputs of groups: each stands where it lies among the messages to its group."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from streaming.places import Place
from streaming.verify.added import NUMBER_MAX
from streaming.verify.columns import Column, paced
from streaming.verify.commands import DONE, Command
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

    def had_begun(self, inputs: Inputs, record: int) -> bool:
        """Whether the life that ends here had begun before a record of the same partition."""
        same = self.since is None or self.since[:2] == self.command.place[:2]
        return same and (self.since is None or self.since[2] < inputs.offset[record])


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

    def behind(record: int) -> Iterable[tuple[_End, bool]]:
        """The removals of a record's group in its partition, and whether it lies behind them."""
        where = inputs.partitions[inputs.partition[record]]
        name = inputs.headers[record][0][1] or b""
        for end in ends.get((where.topic, where.number, name), ()):
            yield end, inputs.offset[record] > end.command.place[2]

    for message, (_, version, _) in paced(enumerate(names)):
        for end, is_behind in behind(of[message]) if of[message] >= 0 else ():
            if is_behind and end.had_ended(version):
                witness = f"{inputs.where(of[message])} was delivered, behind {end.command.where}"
                verdict.find("sender-order", f"{witness}, which had removed its group")
    _judge_absent(verdict, inputs, absent, behind)


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


def _judge_absent(
    verdict: Verdict,
    inputs: Inputs,
    absent: Iterable[int],
    behind: Callable[[int], Iterable[tuple[_End, bool]]],
) -> None:
    for record in absent:
        for end, is_behind in behind(record):
            if not is_behind and end.had_begun(inputs, record):
                witness = f"{inputs.where(record)} was rejected, as if its group were not there,"
                verdict.find("sender-order", f"{witness} before {end.command.where} removed it")


def _ends(group: Group, events: Mapping[Place, int]) -> Iterable[_End]:
    """The removals in inputs that are known to end one life of a group."""
    commands = [command for command, _ in group.done]
    if not all(command.answered for command in commands):
        return
    for at, command in enumerate(commands):
        if command.op != "remove" or not command.in_input:
            continue
        before = [each for each in commands[:at] if each.op == "add"]
        behind = [each for each in commands[at:] if each.op == "add"]
        others = [each for each in commands if each.op == "remove" and each is not command]
        near = [*before[-1:], *behind[:1], *others]
        if any(_at(each) == _at(command) and each.place[:2] != command.place[:2] for each in near):
            continue
        if (not before and not group.configured) or (behind and behind[0].place not in events):
            continue
        yield _End(
            command,
            before[-1].place if before else None,
            events[behind[0].place] if behind else None,
        )


def _at(command: Command) -> object:
    return command.answers[0].fields.get("at")
