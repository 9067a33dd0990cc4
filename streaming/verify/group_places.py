"""Commands in the inputs of groups: each stands where it lies among the messages to its group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from streaming.verify.added import Place
from streaming.verify.commands import DONE, Command
from streaming.verify.faults import Verdict
from streaming.verify.inputs import Inputs

Names = Sequence[tuple[bytes, int, int]]
"""Group, version and number of each message."""


def judge_places(
    verdict: Verdict,
    commands: Iterable[Command],
    events: Mapping[Place, int],
    names: Names,
    inputs: Inputs,
    of: Sequence[int],
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
    for message, (group, version, _) in enumerate(names):
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
