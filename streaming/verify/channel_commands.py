"""What operators asked of channels, held against gaps, rejects and new beginnings."""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from streaming.arrow.json_object import object_in
from streaming.arrow.key_text import escaped, key_from_json
from streaming.disciplines.commands import own_id
from streaming.places import Place
from streaming.verify.channel_readings import (
    ChannelSettings,
    CommandedChannels,
    Judging,
    Material,
    read_all,
)
from streaming.verify.channel_wanted import read_answer
from streaming.verify.commands import DONE, Command, Event, answer, signed, unanswered
from streaming.verify.faults import Verdict
from streaming.verify.inputs import Ends
from streaming.verify.records import Record

OPS = ("skip", "seed", "reset")
Own = tuple[Record, str, bytes | None]
"""A record of an input that is a command: the operation, and its channel."""


@dataclass(slots=True)
class ChannelCommand(Command):
    """A command to one channel, or (``channel`` None) to all that have waited some time.

    ``absent``: which labels will not come, of a command that says so.
    """

    channel: bytes | None = None
    dry_run: bool = False
    absent: tuple[tuple[bytes, int], Mapping[str, Any]] | None = None

    @property
    def acts(self) -> bool:
        """Whether it changed something, or may have: it is not answered yet."""
        return self.done and not self.dry_run


def own_commands(material: Material, settings: ChannelSettings) -> tuple[list[Own], Material]:
    """The commands in the inputs, and the material without them."""
    if not settings.input_commands:
        return [], material
    commands = [each for each in material.inputs if own_op(each, settings)]
    rest = [each for each in material.inputs if not own_op(each, settings)]
    return read_own(commands, settings), replace(material, inputs=rest)


def own_op(record: Record, settings: ChannelSettings) -> str:
    """Return the operation that an input's record asks for; empty where it is a message."""
    if not settings.input_commands:
        return ""
    op = (record.header("op") or b"").decode(errors="replace")
    return op if op in settings.input_commands else ""


def read_own(records: list[Record], settings: ChannelSettings) -> list[Own]:
    """Return the commands that these records of inputs are."""
    readings = read_all(records, settings)
    return [
        (record, own_op(record, settings), reading.channel)
        for record, reading in zip(records, readings, strict=True)
    ]


ChannelInput = tuple[bytes, str, int]
"""A channel's records in one partition of an input."""


def _resets(work: Judging, own: list[Own]) -> dict[ChannelInput, list[int]]:
    """The offsets of those that forgot a channel, ascending."""
    done = {event["id"] for event in work.material.events if event.get("channels") == 1}
    resets: defaultdict[ChannelInput, list[int]] = defaultdict(list)
    for record, op, channel in own:
        name = ":".join(map(str, (work.settings.pipeline, "command", *record.place)))
        dry = b"dry_run" in (record.value or b"")
        if op == "reset" and channel is not None and name in done and not dry:
            resets[channel, record.topic, record.partition].append(record.offset)
    return {source: sorted(offsets) for source, offsets in resets.items()}


def judge_resets(work: Judging, own: list[Own]) -> None:
    """A reset in an input stands between the incarnations of what lies before and behind it.

    Inputs with equal bytes are left out, as nothing says which of them was delivered.
    """
    resets = _resets(work, own)
    if not resets:
        return
    places: defaultdict[int, list[Place]] = defaultdict(list)
    for each in work.material.inputs:
        places[hash(each.content)].append(each.place)
    born: defaultdict[ChannelInput, defaultdict[int, set[int]]] = defaultdict(
        lambda: defaultdict(set)
    )
    for (channel, incarnation, _), content in work.contents.items():
        if len(places[content]) == 1:
            ((topic, partition, offset),) = places[content]
            source = (channel, topic, partition)
            if source in resets:
                born[source][bisect(resets[source], offset)].add(incarnation)
    for source, stretches in born.items():
        for (_, before), (nth, behind) in pairwise(sorted(stretches.items())):
            if max(before) >= min(behind):
                place = f"{source[1]}/{source[2]}@{resets[source][nth - 1]}"
                witness = f"{place}, a reset, is in the middle of an incarnation"
                work.verdict.find("misplaced-command", witness)


def judge_commands(
    verdict: Verdict,
    settings: ChannelSettings,
    records: list[Record],
    events: list[dict[str, Any]],
    own: list[Own],
    due: Ends,
) -> CommandedChannels:
    """Return whether each command was answered once and truly; what commands explain.

    ``own``: those in the inputs. Of events at least their answers and the gaps by an operator.
    """
    commands = [_read(record) for record in records]
    commands += [_read_own(*each) for each in own]
    answers = _answers(events, repeats=settings.repeats_allowed)
    answer(verdict, list(commands), answers)
    verdict.look(commands=len(commands))
    waiting = unanswered(verdict, list(commands), due)
    asked = CommandedChannels()
    for command in commands:
        if command.absent is not None and command.done:
            line, ends = command.absent
            asked.not_coming.setdefault(line, []).append(ends)
        elif command.absent is None and command.acts:
            (asked.reset if command.op == "reset" else asked.passed).add(command.channel)
    _judge_gaps(verdict, events, commands, asked, complete=not waiting)
    return asked


def _begin(record: Record) -> tuple[ChannelCommand, dict[str, Any]]:
    """Return the command of a record, without what it says, and the fields of its JSON."""
    said = object_in(record.value) or {}
    command = ChannelCommand(str(record), record.place, own_id(said))
    command.signed = signed(record.value, said)
    return command, said


def _read(record: Record) -> ChannelCommand:
    command, said = _begin(record)
    command.absent = read_answer(command, said)
    channel = None
    try:
        channel = key_from_json(said["channel"]) if "channel" in said else None
    except ValueError:
        return command
    if said.get("op") in OPS and ("channel" in said) != ("blocked" in said):
        command.op, command.channel = said["op"], channel
        command.dry_run = said.get("dry_run") is True
    return command


def _read_own(record: Record, op: str, channel: bytes | None) -> ChannelCommand:
    """A command of an input's record, which is to its own channel."""
    command, said = _begin(record)
    if channel is not None:
        command.op, command.channel = op, channel
        command.dry_run = said.get("dry_run") is True
    return command


def _answers(events: list[dict[str, Any]], *, repeats: bool) -> list[Event]:
    """The events as such; where they may be repeated, each once."""
    answers, seen = [], set()
    for event in events:
        if not (repeats and event["id"] in seen):
            answers.append(Event(f"event {event['id']}", None, event["event"], event))
        seen.add(event["id"])
    return answers


def _judge_gaps(
    verdict: Verdict,
    events: list[dict[str, Any]],
    commands: list[ChannelCommand],
    asked: CommandedChannels,
    *,
    complete: bool,
) -> None:
    """Gaps by an operator have a command, and their labels are those that answers tell of."""
    announced: Counter[bytes] = Counter()
    for event in {event["id"]: event for event in events}.values():
        if event["event"] == "gap" and event["reason"] == "operator":
            channel = key_from_json(event["channel"])
            announced[channel] += event["count"]
            if not asked.may_have_passed(channel):
                verdict.find("unasked-gap", f"event {event['id']}: no command asked for it")
    answered: Counter[bytes | None] = Counter()
    for command in commands:
        if (
            command.absent is None
            and command.acts
            and command.answered
            and command.answers[0].kind == DONE
        ):
            answered[command.channel] += command.answers[0].fields.get("given_up", 0)
    if complete and announced.total() != answered.total():
        what = f"{announced.total()} labels in gaps by an operator"
        verdict.find("wrong-count", f"{what}, but answers tell of {answered.total()}")
    if complete and None not in answered:
        for name in answered.keys() | announced.keys():
            if name is not None and announced[name] != answered[name]:
                what = f"key {escaped(name)}: {announced[name]} labels given up by an operator"
                verdict.find("wrong-count", f"{what}, answers say {answered[name]}")
