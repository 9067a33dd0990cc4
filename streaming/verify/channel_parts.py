"""A channel pipeline judged some channels at a time, so that its topics need not fit into memory.

Nothing that is judged of a channel rests on another one, but for commands. So the records of large
topics are first put into files by their channel, each file with those of some channels, and judged
file by file. What commands and their answers say is kept for all of them.

```
topics  ->  part 0: all records of channels a, d, ...   ->  judged alone
            part 1: all records of channels b, c, ...   ->  judged alone
            common: commands, answers, gaps by operators
```
"""

from __future__ import annotations

import json
import marshal
import tempfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol, Self

from streaming.arrow.key_text import key_from_json
from streaming.errors import SequencerError
from streaming.places import Place
from streaming.verify.added import reject, without, without_reject
from streaming.verify.channel import judge_part
from streaming.verify.channel_commands import judge_commands, own_op, read_own
from streaming.verify.channel_events import read_event
from streaming.verify.channel_gaps import rules_with_few
from streaming.verify.channel_notices import WORDS
from streaming.verify.channel_readings import ChannelRule, ChannelSettings, Material
from streaming.verify.commands import DONE, REFUSED
from streaming.verify.faults import Verdict
from streaming.verify.homes import Fits
from streaming.verify.inputs import Ends
from streaming.verify.notices import read_notice
from streaming.verify.records import Record
from streaming.verify.values import said_of

PART_RECORDS = 250_000
"""Records that are judged at a time; each takes some 500 bytes besides its content."""
WHOLE_RECORDS_MAX = 500_000
"""No more records than these are judged at once, and no file is written."""
WAITING_MAX = 50_000
"""Records in memory before they are written to the parts' files."""
RULES_KNOWN = 100_000
"""Channels whose rule is remembered while records are read."""
KINDS = ("outputs", "rejects", "events", "wanted", "inputs")


class Extras(Protocol):
    """What is looked at besides the judge; see `streaming.verify.run.Extras`."""

    def taken(self, outputs: Iterable[Record]) -> Iterator[Record]:
        """The deliveries without what is judged here."""

    def held_against(self, inputs: Iterable[Record]) -> Iterator[Record]:
        """The inputs, unchanged."""

    def finish(self, verdict: Verdict) -> None:
        """Report what was found."""


@dataclass(frozen=True, slots=True)
class Feed:
    """The records of the pipeline's topics, each partition's in order. Read once, in this order."""

    outputs: Iterable[Record]
    rejects: Iterable[Record]
    events: Iterable[Record]
    commands: Iterable[Record]
    wanted: Iterable[Record]
    inputs: Iterable[Record]


def parts_for(records: int) -> int:
    """Return the number of parts for a number of records."""
    return 1 if records <= WHOLE_RECORDS_MAX else -(-records // PART_RECORDS)


def judge_in_parts(
    settings: ChannelSettings,
    feed: Feed,
    count: int,
    due: Ends = None,
    extras: Callable[[], Extras] | None = None,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> tuple[Verdict, dict[tuple[str, int], int]]:
    """Judge what `channel.judge` does, ``count`` parts one after the other.

    Returned are the verdict, and how far commands and inputs were read. ``extras`` are made anew
    for each part; ``progress`` gets what is being done, how much of it is done, and of how much.
    """
    verdict = Verdict(settings.pipeline)
    verdict.look(inputs=0, deliveries=0, rejects=0, events=0)
    with Parts(count) as parts:
        sorting = _Sorting(settings, parts, count)
        commands, own_records = sorting.sort(feed)
        settings = replace(settings, records=sorting.messages)
        for where in sorting.unreadable:
            verdict.find("bad-event", f"{where} is not an event of a channel")
        own = read_own(own_records, settings)
        asked = judge_commands(verdict, settings, commands, sorting.telling, own, due)
        fits: Fits = {}
        for number in range(count):
            found = parts.of(number)
            part_extras = extras() if extras is not None else None
            outputs, inputs = found["outputs"], found["inputs"]
            if part_extras is not None:
                outputs = list(part_extras.taken(outputs))
                inputs = list(part_extras.held_against(inputs))
            events = [*sorting.common, *map(_parsed, found["events"])]
            verdict.look(events=-len(sorting.common) if number else 0)
            material = Material(
                inputs, outputs, found["rejects"], events, commands, found["wanted"]
            )
            judge_part(verdict, settings, material, own, asked, sorting.few, fits, due)
            if part_extras is not None:
                part_extras.finish(verdict)
            if count > 1:
                progress("judging, parts", number + 1, count)
    return verdict, sorting.ends


class _Sorting:
    """Puts records into the part of their channel.

    ``common``: events of no channel, ``telling``: those about commands, ``unreadable``: where none
    could be read, ``ends``: how far commands and inputs were read. ``few``: rules that had few
    messages, which a part does not show; None of one part. ``messages``: how many were read. A
    reject that has lost its value, and its channel with it, waits for the input that it names.
    """

    def __init__(self, settings: ChannelSettings, parts: Parts, count: int) -> None:
        self.settings, self.parts, self.count = settings, parts, count
        self.is_key = settings.channel_header is None and settings.channel_field is None
        self.common: list[dict[str, Any]] = []
        self.telling: list[dict[str, Any]] = []
        self.ends: dict[tuple[str, int], int] = {}
        self.nameless: defaultdict[Place, list[Record]] = defaultdict(list)
        self.unreadable: list[str] = []
        self.messages = 0
        self.few: set[ChannelRule] | None = None
        self._rule_of = lru_cache(RULES_KNOWN)(settings.of)
        self._of_rule: Counter[ChannelRule] = Counter()

    def sort(self, feed: Feed) -> tuple[list[Record], list[Record]]:
        """Read all; the commands, and those among the inputs, by partition and offset."""
        for record in feed.outputs:
            self.parts.put(self._part_of_output(record), "outputs", record)
        for record in feed.wanted:  # before rejects: what was rejected then was missing
            self.parts.put(self._number(record.key), "wanted", record)
        for record in feed.rejects:
            self._take_reject(record)
        for record in feed.events:
            self._take_event(record)
        commands = sorted(self._noted(feed.commands), key=attrgetter("partition"))
        before = set(self.ends)
        own = [each for each in self._noted(feed.inputs) if not self._take_message(each)]
        if self.count > 1:
            read = sum(end for place, end in self.ends.items() if place not in before)
            removed = read - self.messages
            self.few = rules_with_few(self.settings, self._of_rule, removed)
        for record in chain.from_iterable(self.nameless.values()):
            self.parts.put(0, "rejects", record)
        return commands, sorted(own, key=lambda each: each.place[:2])

    def _take_reject(self, record: Record) -> None:
        prefix = self.settings.header_prefix
        said = reject(record, prefix)
        if said is not None and (said.without_value or said.without_all):
            self.nameless[said.origin].append(record)
        else:
            self.parts.put(self._part(without_reject(record, prefix)), "rejects", record)

    def _take_message(self, record: Record) -> bool:
        """Take a record of an input; False where it is a command."""
        if own_op(record, self.settings):
            return False
        part = 0
        if self.count > 1:
            channel = self._channel(record)
            part = self._number(channel)
            self._of_rule[self._rule_of(channel or b"")] += 1
        self.messages += 1
        self.parts.put(part, "inputs", record)
        for each in self.nameless.pop(record.place, ()):
            self.parts.put(part, "rejects", each)
        return True

    def _noted(self, records: Iterable[Record]) -> Iterator[Record]:
        for record in records:
            self.ends[record.topic, record.partition] = record.offset + 1
            yield record

    def _take_event(self, record: Record) -> None:
        if not record.value:
            return
        event = read_event(record)
        if event is None:
            self.unreadable.append(str(record))
            return
        is_gap = event.get("event") == "gap" and event.get("reason") == "operator"
        if is_gap or event.get("event") in (DONE, REFUSED):
            self.telling.append(event)
        if "channel" in event:
            self.parts.put(self._number(key_from_json(event["channel"])), "events", record)
        else:
            self.common.append(event)

    def _part_of_output(self, record: Record) -> int:
        if self.count == 1:
            return 0
        if self.is_key:
            return self._number(record.key)
        prefix = self.settings.header_prefix
        if record.headers and record.headers[-1][0] == prefix + "origin":
            record = without(record, 1)
        if read_notice(record, prefix, WORDS) is not None:
            return self._number(record.key)
        return self._part(without(record, len(self.settings.added)))

    def _part(self, record: Record) -> int:
        return 0 if self.count == 1 else self._number(self._channel(record))

    def _channel(self, record: Record) -> bytes | None:
        if self.is_key:
            return record.key
        settings = self.settings
        name = (settings.channel_header, settings.channel_field, settings.registered)
        return said_of(record, *name)[1]

    def _number(self, channel: bytes | None) -> int:
        return zlib.crc32(channel or b"") % self.count


@dataclass(slots=True)
class Parts:
    """Records by part and kind, in files where there is more than one part; a context manager."""

    count: int
    waiting: dict[int, list[tuple[str, tuple[Any, ...]]]] = field(default_factory=dict)
    size: int = 0
    folder: Path | None = None
    stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        if self.count > 1:
            name = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="sequencer-verify-"))
            self.folder = Path(name)
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def put(self, part: int, kind: str, record: Record) -> None:
        """Add a record behind those of its part and kind."""
        where = (record.topic, record.partition, record.offset, record.timestamp)
        self.waiting.setdefault(part, []).append((kind, (*where, *record.content[:3])))
        self.size += 1
        if self.folder is not None and self.size >= WAITING_MAX:
            self._write(self.folder)

    def of(self, part: int) -> dict[str, list[Record]]:
        """Return the records of a part by kind, each by partition and in its order.

        It is forgotten. SequencerError where its file cannot be read.
        """
        found: dict[str, list[Record]] = {kind: [] for kind in KINDS}
        for kind, row in self._rows(part):
            found[kind].append(Record(*row))
        for records in found.values():
            records.sort(key=lambda each: (each.topic, each.partition))
        return found

    def _rows(self, part: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
        if self.folder is not None:
            self._write(self.folder)
            path = self.folder / str(part)
            if path.exists():
                with self._no_room_is_said(), path.open("rb") as file:
                    while head := file.read(8):
                        yield from marshal.loads(file.read(int.from_bytes(head)))  # noqa: S302  (ours)
                path.unlink()
        yield from self.waiting.pop(part, ())

    def _write(self, folder: Path) -> None:
        with self._no_room_is_said():
            for part, rows in self.waiting.items():
                data = marshal.dumps(rows)
                with (folder / str(part)).open("ab") as file:
                    file.write(len(data).to_bytes(8))
                    file.write(data)
        self.waiting.clear()
        self.size = 0

    @contextmanager
    def _no_room_is_said(self) -> Iterator[None]:
        """Say what to do where the files cannot be written."""
        try:
            yield
        except OSError as error:
            raise SequencerError(
                f"What was read of the topics cannot be kept in {self.folder}: {error.strerror}.",
                "Nothing was judged.",
                "It needs as much room there as the topics have; TMPDIR names another folder.",
            ) from error


def _parsed(record: Record) -> dict[str, Any]:
    event: dict[str, Any] = json.loads(record.value or b"{}")
    return event
