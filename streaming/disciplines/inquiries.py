"""Messages that Kafka refused for some, where shards send each other messages: did anybody get it?

Its copies leave in several shards and batches, and none of them sees them all. So a shard that
leaves copies out *reports* them to the message's home. Where that is all of them, the home rejects
the message. Else it *asks* all shards whether the message has passed them; one *answers* when it
has, behind its own reports, as links keep their order. With the last answer the home knows: an
event `undelivered` for each copy that was refused, or a reject where no other is left.

What is said is bytes: a JSON head, and with the report of a message's first destination its record.
A report of many copies is cut into several: the home adds them up.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from streaming.arrow import output
from streaming.arrow.ipc import from_ipc, to_ipc
from streaming.arrow.payload import cuts
from streaming.arrow.totals import Totals
from streaming.disciplines.commands import place_of
from streaming.disciplines.plan import Plan
from streaming.disciplines.refused import Name, Why
from streaming.disciplines.undelivered import LeavingOut, Spending, not_delivered

REPORT, ASK, ANSWER = "report", "ask", "answer"
_LENGTH = struct.Struct(">I")

Key = list[Any]
"""What names a message to its discipline, as JSON has it."""


class Answering(Spending, Protocol):
    """A shard of a discipline that has taken a batch."""

    def source(self, row: int) -> pa.Table:
        """Return the record (RECORD) of a delivery of this batch, by its ROW; one row."""

    def key_of(self, name: Name, row: int) -> Key | None:
        """Return the message that a delivery is of; None where it announces a command."""

    def home_of(self, key: Key) -> int:
        """Return the shard that decides what becomes of a message."""

    def destinations_of(self, name: Name, row: int) -> Collection[str]:
        """Return all who were to get the message of a delivery."""

    def is_under_way(self, key: Key) -> bool:
        """Return whether the home is still sending a message to shards that have to take it."""

    def has_passed(self, key: Key) -> bool:
        """Return whether this shard has delivered a message to all of its own that get it."""


@dataclass(frozen=True, slots=True)
class Decider:
    """A shard that has taken a batch: its number, what it counts in, the batch's time."""

    core: Answering
    shard: int
    totals: Totals
    now_ms: int


@dataclass(slots=True)
class Case:
    """A message that was refused for some.

    ``sender``: its record's key (base64). ``count``: its destinations. ``refused``: those that do
    not get it, and why. ``record``: its record as bytes, once it has come. ``waiting``: the shards
    that have not answered; None: not asked yet.
    """

    key: Key
    place: dict[str, Any]
    sender: str
    count: int
    refused: dict[str, Why] = field(default_factory=dict)
    record: bytes = b""
    waiting: set[int] | None = None

    def key_of_record(self) -> bytes:
        """The record's key."""
        return base64.b64decode(self.sender)

    def fields(self) -> list[Any]:
        """As JSON has it."""
        waiting = None if self.waiting is None else sorted(self.waiting)
        record = _base64(self.record)
        return [self.key, self.place, self.sender, self.count, self.refused, record, waiting]

    @classmethod
    def of(cls, fields: Sequence[Any]) -> Case:
        """Return the inverse of :meth:`fields`."""
        key, place, sender, count, refused, record, waiting = fields
        found = {to: (why, said) for to, (why, said) in refused.items()}
        shards = None if waiting is None else set(waiting)
        return cls(key, place, sender, count, found, base64.b64decode(record), shards)


@dataclass(slots=True)
class Said:
    """What a step brings about: records to write, and what is said to other shards, in order."""

    writes: list[output.Write] = field(default_factory=list)
    outgoing: list[tuple[int, bytes]] = field(default_factory=list)


@dataclass(slots=True)
class Inquiries:
    """A shard's part: the ``cases`` that it is the home of, and ``asked``: (home, message).

    Kept in the shard's state.
    """

    cases: dict[str, Case] = field(default_factory=dict)
    asked: list[tuple[int, Key]] = field(default_factory=list)

    def fields(self) -> list[Any]:
        """As JSON has it; empty where there is nothing."""
        if not self.cases and not self.asked:
            return []
        return [[case.fields() for case in self.cases.values()], self.asked]

    @classmethod
    def of(cls, fields: Sequence[Any]) -> Inquiries:
        """Return the inverse of :meth:`fields`."""
        if not fields:
            return cls()
        cases = [Case.of(each) for each in fields[0]]
        return cls({_text(case.key): case for case in cases}, [(to, key) for to, key in fields[1]])

    def step(
        self, incoming: Iterable[tuple[int, bytes]], left_out: LeavingOut, decider: Decider
    ) -> Said:
        """Take what others said, and what is left out in this batch."""
        plan, said = left_out.plan, Said()
        for source, words in incoming:
            self._hear(source, words)
        events = self._report(left_out, decider, said) if left_out.dropped else []
        self._answer(decider.core, said)
        rejected: list[tuple[pa.Table, Why]] = []
        for text, case in list(self.cases.items()):
            everybody = len(case.refused) == case.count
            if not everybody and not self._is_answered(case, decider, plan.shards, said):
                continue
            del self.cases[text]
            if everybody:
                why = case.refused[min(case.refused)]
                rejected.append((from_ipc(case.record), why))
                decider.totals.reject(why[0])
                continue
            decider.totals.undelivered += len(case.refused)
            events += [
                not_delivered(plan, case.place, case.key_of_record(), to, why, decider.now_ms)
                for to, why in sorted(case.refused.items())
            ]
        if rejected:
            said.writes.append((plan.rejects, _rejects(rejected, plan)))
        if events:
            said.writes.append((plan.events, output.events(events)))
        return said

    def _hear(self, source: int, words: bytes) -> None:
        (size,) = _LENGTH.unpack_from(words)
        kind, key, *more = json.loads(words[_LENGTH.size : _LENGTH.size + size])
        if kind == REPORT:
            self._note(Case.of([key, *more]), words[_LENGTH.size + size :])
        elif kind == ASK:
            self.asked.append((source, key))
        else:
            waiting = self.cases[_text(key)].waiting if _text(key) in self.cases else None
            if waiting is not None:
                waiting.discard(source)

    def _note(self, case: Case, record: bytes) -> None:
        known = self.cases.setdefault(_text(case.key), case)
        known.refused.update(case.refused)
        known.record = known.record or record

    def _report(self, left_out: LeavingOut, decider: Decider, said: Said) -> list[output.Event]:
        """Report what is left out, message by message; the events of notices."""
        core, plan, totals = decider.core, left_out.plan, decider.totals
        core.unspend(left_out.counts)
        events: list[output.Event] = []
        cases: dict[str, tuple[Case, str, list[bytes]]] = {}
        for name, row in zip(left_out.dropped, left_out.rows, strict=True):
            why, (_, to) = left_out.named[name], plan.message_of(name)
            key = None if row is None else core.key_of(name, row)
            if row is None or key is None:
                place, sender = _command_of(name, row, core, plan)
                events.append(not_delivered(plan, place, sender, to, why, decider.now_ms))
                totals.notices -= 1
                totals.undelivered += 1
                continue
            totals.delivered -= 1
            if _text(key) not in cases:
                everybody = core.destinations_of(name, row)
                (record,) = core.source(row).to_pylist()
                case = Case(key, place_of(record, plan), _base64(record["key"]), len(everybody))
                cases[_text(key)] = case, min(everybody), []
            case, first, records = cases[_text(key)]
            case.refused[to] = why
            if to == first:
                records.append(to_ipc(core.source(row)))
        for case, _, records in cases.values():
            home, record = core.home_of(case.key), b"".join(records)
            if home == decider.shard:
                self._note(case, record)
            else:
                said.outgoing += [(home, words) for words in _reports(case, record)]
        return events

    def _answer(self, core: Answering, said: Said) -> None:
        """Answer what can be answered now."""
        asked, self.asked = self.asked, []
        for home, key in asked:
            if core.has_passed(key):
                said.outgoing.append((home, _words([ANSWER, key])))
            else:
                self.asked.append((home, key))

    def _is_answered(self, case: Case, decider: Decider, shards: int, said: Said) -> bool:
        """Whether all shards have answered; asks them, once none has still to be sent a copy."""
        if case.waiting is None:
            if decider.core.is_under_way(case.key):
                return False
            case.waiting = set(range(shards)) - {decider.shard}
            said.outgoing += [(to, _words([ASK, case.key])) for to in sorted(case.waiting)]
        return not case.waiting and decider.core.has_passed(case.key)


def _reports(case: Case, record: bytes) -> Iterator[bytes]:
    """Yield the reports of a shard's refused copies, cut where one grows too large."""
    copies = list(case.refused.items())
    for first, stop in cuts(len(json.dumps(copy)) for copy in copies):
        part = replace(case, refused=dict(copies[first:stop]))
        yield _words([REPORT, *part.fields()], b"" if first else record)


def _command_of(
    name: Name, row: int | None, core: Answering, plan: Plan
) -> tuple[Mapping[str, Any], bytes | None]:
    """Place and key of the command that a notice announces; by its detail, where it has no row."""
    if row is None:
        detail = json.loads(name[-1] or "{}")
        return {each: detail[each] for each in ("topic", "partition", "offset")}, None
    (record,) = core.source(row).to_pylist()
    return place_of(record, plan), record["key"]


def _rejects(rejected: Sequence[tuple[pa.Table, Why]], plan: Plan) -> pa.Table:
    rows = pa.concat_tables([table for table, _ in rejected]).combine_chunks()
    reasons, details = zip(*(why for _, why in rejected), strict=True)
    return output.rejects(rows, pa.array(reasons), plan.inputs, pa.array(details))


def _base64(some: bytes) -> str:
    return base64.b64encode(some).decode()


def _text(key: Key) -> str:
    return json.dumps(key)


def _words(head: Sequence[Any], more: bytes = b"") -> bytes:
    encoded = json.dumps(head).encode()
    return _LENGTH.pack(len(encoded)) + encoded + more
