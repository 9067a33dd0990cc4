"""What operators asked of channels, held against gaps, rejects and new beginnings."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from streaming.arrow.key_text import escaped, key_from_json
from streaming.disciplines.commands import own_id
from streaming.verify.channel_readings import Asked, Material
from streaming.verify.commands import DONE, Command, Event, answer, unanswered
from streaming.verify.faults import Verdict
from streaming.verify.inputs import Ends
from streaming.verify.records import Record

OPS = ("skip", "seed", "reset")


@dataclass(slots=True)
class ChannelCommand(Command):
    """A command to one channel, or (``channel`` None) to all that have waited some time."""

    channel: bytes | None = None
    dry_run: bool = False

    @property
    def acts(self) -> bool:
        """Whether it changed something, or may have: it is not answered yet."""
        return self.done and not self.dry_run


def judge_commands(verdict: Verdict, material: Material, due: Ends, *, repeats: bool) -> Asked:
    """Whether each command was answered once and truly; what commands explain."""
    commands = [_read(record) for record in material.commands]
    answers = _answers(material.events, repeats=repeats)
    answer(verdict, list(commands), answers)
    verdict.looked_at["commands"] = len(commands)
    waiting = unanswered(verdict, list(commands), due)
    asked = Asked()
    for command in commands:
        if command.acts:
            (asked.reset if command.op == "reset" else asked.passed).add(command.channel)
    _judge_gaps(verdict, material.events, commands, asked, complete=not waiting)
    return asked


def _read(record: Record) -> ChannelCommand:
    try:
        said = json.loads(record.value or b"")
    except (ValueError, RecursionError):
        said = None
    said = said if isinstance(said, dict) else {}
    command = ChannelCommand(str(record), record.place, own_id(said))
    channel = None
    try:
        channel = key_from_json(said["channel"]) if "channel" in said else None
    except ValueError:
        return command
    if said.get("op") in OPS and ("channel" in said) != ("blocked" in said):
        command.op, command.channel = said["op"], channel
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
    asked: Asked,
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
        if command.acts and command.answered and command.answers[0].kind == DONE:
            answered[command.channel] += command.answers[0].fields.get("given_up", 0)
    if complete and announced.total() != answered.total():
        what = f"{announced.total()} labels in gaps by an operator"
        verdict.find("wrong-count", f"{what}, but answers tell of {answered.total()}")
    if complete and None not in answered:
        for name in answered.keys() | announced.keys():
            if name is not None and announced[name] != answered[name]:
                what = f"key {escaped(name)}: {announced[name]} labels given up by an operator"
                verdict.find("wrong-count", f"{what}, answers say {answered[name]}")
