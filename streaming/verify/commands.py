"""Commands and events: what each command says, and how it was answered."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from math import inf
from typing import Any

from streaming.arrow.json_object import object_in
from streaming.disciplines.commands import name_fault, own_id
from streaming.places import Place
from streaming.verify.faults import Verdict
from streaming.verify.inputs import Ends, is_due
from streaming.verify.records import Record

DONE = "command-done"
REFUSED = "command-refused"
MOVED = "version-moved"
COORDINATES = ("topic", "partition", "offset")
SIGNED = ("by", "why")
SIGNED_BYTES_MAX = 10_000
COMMAND_BYTES_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Event:
    """An event with its key and where it lies."""

    where: str
    key: bytes | None
    kind: str
    fields: Mapping[str, Any]
    place: Place = ("", -1, -1)


@dataclass(slots=True)
class Command:
    """A command: ``op``, ``subject`` and ``others`` are empty where it cannot be read.

    ``timestamp``: of its record (ms). ``if_version``: the version that the subject must have.
    ``in_input``: it is a record of an input, of a ``sender``. ``signed``: who gave it and why, as
    its answer has to say; None where one of these is not text: then it has to be refused.
    """

    where: str
    place: Place
    id: str | None
    op: str = ""
    subject: str = ""
    others: tuple[str, ...] = ()
    timestamp: int = 0
    if_version: int | None = None
    in_input: bool = False
    sender: bytes | None = None
    signed: Mapping[str, str] | None = None
    answers: list[Event] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether it was carried out, or may have been: it is not answered yet."""
        return bool(self.op) and all(answered.kind == DONE for answered in self.answers[:1])

    @property
    def answered(self) -> bool:
        """Whether there is an answer."""
        return bool(self.answers)


def read_events(verdict: Verdict, records: Iterable[Record], *, repeats: bool) -> list[Event]:
    """The events in the order of their partitions, each `id` once."""
    events: list[Event] = []
    seen: dict[str, int] = {}
    for record in records:
        fields = object_in(record.value) or {}
        named = fields.get("event"), fields.get("id")
        if not all(isinstance(each, str) for each in named) or not is_text(fields):
            verdict.find("bad-event", f"{record} is not a JSON object with an event and an id")
            continue
        name, content = fields["id"], hash((record.key, record.value))
        if name in seen:
            if seen[name] != content or not repeats:
                verdict.find("event-repeat", f"{record}: its id {name} was there before")
            continue
        seen[name] = content
        events.append(Event(str(record), record.key, fields["event"], fields, record.place))
    return events


def read_command(
    record: Record, ops: Mapping[str, tuple[str, str | None]], asked: str = ""
) -> Command:
    """A command; ``ops``: for each op the name of its subject and of its other field, if any.

    The other field is a text, or a list of texts. ``asked``: the operation of a record of an input.
    """
    is_long = len(record.value or b"") > COMMAND_BYTES_MAX
    fields = {} if is_long else object_in(record.value) or {}
    command = Command(str(record), record.place, own_id(fields), timestamp=record.timestamp)
    command.in_input, command.sender = bool(asked), record.key
    command.signed = signed(record.value, fields)
    if asked and fields:
        fields["op"] = asked
    op = fields.get("op")
    if not isinstance(op, str) or op not in ops:
        return command
    subject, other = (fields.get(name) if name else () for name in ops[op])
    others = (other,) if isinstance(other, str) else other
    if not isinstance(subject, str) or not subject or not isinstance(others, list | tuple):
        return command
    if any(name_fault(named) for named in (subject, *others)):
        return command
    if "if_version" in fields:
        if type(fields["if_version"]) is not int:
            return command
        command.if_version = fields["if_version"]
    if ops[op][1] is not None and not others:
        return command
    command.op, command.subject, command.others = op, subject, tuple(others)
    return command


def signed(value: bytes | None, fields: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Who gave a command and why, by the fields of its JSON; None where one of them is not text.

    Of one that is too long to be read: nothing.
    """
    if len(value or b"") > COMMAND_BYTES_MAX:
        return {}
    given = {name: fields[name] for name in SIGNED if name in fields}
    return given if all(_can_be_said(text) for text in given.values()) else None


def _can_be_said(text: Any) -> bool:
    try:
        return isinstance(text, str) and len(text.encode()) <= SIGNED_BYTES_MAX
    except UnicodeEncodeError:  # half of a pair of surrogates
        return False


def without_commands(
    records: Iterable[Record],
    allowed: Collection[str],
    ops: Mapping[str, tuple[str, str | None]],
    commands: list[Command],
) -> Iterator[Record]:
    """Yield the messages of inputs; the commands among them go to ``commands``."""
    for record in records:
        asked = (record.header("op") or b"").decode(errors="replace") if allowed else ""
        if asked in allowed:
            commands.append(read_command(record, ops, asked))
        else:
            yield record


def answer(verdict: Verdict, commands: list[Command], events: list[Event]) -> None:
    """Give each command its answers; report answers that no command can have."""
    at = {command.place: command for command in commands}
    for event in events:
        if event.kind not in (DONE, REFUSED):
            continue
        place = coordinates(event)
        command = at.get(place) if place is not None else None
        if command is None:
            verdict.find(
                "invented-answer", f"{event.where} answers a command that is not at {place}"
            )
            continue
        command.answers.append(event)
        if len(command.answers) > 1:
            first = command.answers[0].where
            verdict.find("answered-twice", f"{command.where}: by {first} and by {event.where}")
        _judge_answer(verdict, command, event)


def _judge_answer(verdict: Verdict, command: Command, event: Event) -> None:
    if event.fields.get("command") != command.id and command.id is not None:
        verdict.find("wrong-answer", f"{event.where} has not the id of {command.where}")
    said = {name: event.fields[name] for name in SIGNED if name in event.fields}
    if said != (command.signed or {}):
        verdict.find("wrong-answer", f"{event.where} has not the by and why of {command.where}")
    if event.kind == DONE and (not command.op or command.signed is None):
        verdict.find("wrong-answer", f"{event.where}: {command.where} cannot be read")
    if event.kind == REFUSED and not event.fields.get("reason"):
        verdict.find("wrong-answer", f"{event.where} gives no reason")
    if event.kind == REFUSED and event.fields.get("reason") == MOVED:
        version = event.fields.get("version")
        if command.if_version is None or version in (None, command.if_version):
            verdict.find("wrong-answer", f"{event.where}: {command.where} had its version")


def coordinates(event: Event) -> Place | None:
    """The place that an event reports."""
    return place_in(event.fields)


def place_in(fields: Mapping[str, Any]) -> Place | None:
    """The place that the fields of an event name."""
    topic, partition, offset = (fields.get(name) for name in COORDINATES)
    if isinstance(topic, str) and type(partition) is int and type(offset) is int:
        return topic, partition, offset
    return None


def may_be_forgotten(at: str, remembered_ms: int, now_ms: float) -> bool:
    """Return whether so much time has passed since ``at`` (RFC 3339), or this is not known."""
    try:
        since_ms = now_ms - datetime.fromisoformat(at).timestamp() * 1000
    except ValueError:
        return True
    return since_ms >= remembered_ms


def unanswered(verdict: Verdict, commands: list[Command], due: Ends) -> int:
    """Return how many commands have no answer; report those that have had their time."""
    count = 0
    for command in commands:
        if not command.answered:
            count += 1
            if is_due(command.place, due):
                verdict.find("unanswered", f"{command.where} has neither {DONE} nor {REFUSED}")
    return count


def by_subject(commands: list[Command]) -> dict[str, list[Command]]:
    """Readable commands of each group or node, in the order in which they were done.

    That is the order of arrival; across partitions, of the answers' batch times first, and of the
    answers where a time is that of several batches.
    """
    commands_of: dict[str, list[Command]] = defaultdict(list)
    for command in commands:
        if command.op:
            commands_of[command.subject].append(command)
    for same_subject in commands_of.values():
        if len({command.place[:2] for command in same_subject}) == 1:
            same_subject.sort(key=lambda command: command.place)
        else:
            same_subject.sort(key=lambda asked: (answered_at(asked), asked.in_input, asked.place))
            at_once = [list(same) for _, same in groupby(same_subject, answered_at)]
            same_subject[:] = [asked for same in at_once for asked in _as_answered(same)]
    return dict(commands_of)


def _as_answered(commands: list[Command]) -> list[Command]:
    """Commands in the order of their answers, if that can be the order in which they were done.

    It can unless repeats or another partition of events broke it: each partition's commands stay
    in order. After a clock was set back several batches have one time.
    """
    if len({asked.answers[0].place[:2] if asked.answers else None for asked in commands}) > 1:
        return commands
    answered = sorted(commands, key=lambda asked: [event.place for event in asked.answers[:1]])
    newest: dict[tuple[str, int], int] = {}
    for asked in answered:
        if asked.place[2] < newest.get(asked.place[:2], -1):
            return commands
        newest[asked.place[:2]] = asked.place[2]
    return answered


def answered_at(command: Command) -> str:
    """The batch time of the answer; RFC 3339 in one zone and precision sorts as text."""
    return str(command.answers[0].fields.get("at", "")) if command.answers else "~"


def answered_ms(command: Command) -> float:
    """Return the batch time of the answer in ms; endless if it is not known."""
    try:
        return datetime.fromisoformat(answered_at(command)).timestamp() * 1000
    except ValueError:
        return inf


def is_text(said: Any) -> bool:
    """Return whether what JSON said can be written as UTF-8: it has no half of a surrogate pair."""
    try:
        json.dumps(said, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
