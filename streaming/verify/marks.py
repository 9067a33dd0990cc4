"""Progress marks, held against deliveries and inputs.

Faults: `bad-mark` (no mark, or one beyond what is there), `false-mark` (a record comes behind
`output_end` though a mark says that it is complete). Records whose bytes another one has, too, are
passed over, and so are those that are held still.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from streaming.places import Place
from streaming.verify.faults import Verdict
from streaming.verify.origins import Naming, content_of
from streaming.verify.records import Record

Ends = Mapping[tuple[str, int], int]
"""The end of each partition of inputs."""
AMBIGUOUS: tuple[Place, int] = (("", -1, -1), 0)


class Mark(NamedTuple):
    """What a mark says; ``oldest_ms`` None where nothing is held."""

    end: int
    inputs: Mapping[str, Mapping[str, int]]
    oldest_ms: int | None
    shown: str

    def covers(self, place: Place) -> bool:
        """Whether it reports a record."""
        topic, partition, offset = place
        return offset < self.inputs.get(topic, {}).get(str(partition), 0)


@dataclass(slots=True)
class Marks:
    """The marks of a pipeline's output; ``first`` of a delivery's repeats counts, else the last."""

    prefix: str
    naming: Naming
    first: bool
    by_partition: dict[int, list[Mark]] = field(default_factory=dict)
    delivered: dict[int, dict[int, int]] = field(default_factory=dict)
    sent: dict[int, tuple[Place, int]] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)

    def read(self, records: Iterable[Record], ends: Ends) -> None:
        """Read the marks; ``ends`` of the inputs, asked for afterwards."""
        for record in records:
            mark = _mark(record)
            key = (record.key or b"").decode(errors="replace")
            if mark is None or not key.isdecimal():
                self.faults.append(("bad-mark", f"{record} is no progress mark"))
            elif any(
                offset > ends.get((topic, int(at)), -1)
                for topic, of in mark.inputs.items()
                for at, offset in of.items()
            ):
                self.faults.append(("bad-mark", f"{record} names inputs that are not there"))
            else:
                self.by_partition.setdefault(int(key), []).append(mark)
        for marks in self.by_partition.values():
            marks.sort(key=attrgetter("end"))

    def anew(self) -> Marks:
        """Return the same marks, with nothing held against them yet."""
        return Marks(self.prefix, self.naming, self.first, self.by_partition)

    def taken(self, outputs: Iterable[Record]) -> Iterator[Record]:
        """The deliveries, without a header `origin`; their places are noted."""
        for record in outputs:
            if self.by_partition and (message := self.naming(record, self.prefix)) is not None:
                content = content_of(record, len(record.headers) - message[0])
                of = self.delivered.setdefault(content, {})
                if not (self.first and record.partition in of):
                    of[record.partition] = record.offset
            yield record

    def held_against(self, inputs: Iterable[Record]) -> Iterator[Record]:
        """The inputs, whose places are noted."""
        for record in inputs:
            if self.by_partition:
                content = content_of(record, len(record.headers))
                known = content in self.sent
                self.sent[content] = AMBIGUOUS if known else (record.place, record.timestamp)
            yield record

    def finish(self, verdict: Verdict) -> None:
        """Report what was found, after all inputs."""
        for content, (place, time_ms) in self.sent.items():
            if place == AMBIGUOUS[0]:
                continue
            for partition, offset in self.delivered.get(content, {}).items():
                self._judge(place, time_ms, partition, offset)
        for name, witness in self.faults:
            verdict.find(name, witness)

    def _judge(self, place: Place, time_ms: int, partition: int, offset: int) -> None:
        marks = self.by_partition.get(partition, [])
        for mark in reversed(marks[: bisect_right(marks, offset, key=attrgetter("end"))]):
            if not mark.covers(place):
                return
            if mark.oldest_ms is None or time_ms < mark.oldest_ms:
                where = f"{place[0]}/{place[1]}@{place[2]} was delivered at offset {offset}"
                witness = f"{mark.shown} says that all lies below {mark.end}; {where}"
                self.faults.append(("false-mark", witness))
                return


def _mark(record: Record) -> Mark | None:
    try:
        value: Any = json.loads(record.value or b"")
        inputs = {
            topic: {str(int(at)): int(offset) for at, offset in of.items()}
            for topic, of in value["inputs"].items()
        }
        numbers = [value["output_end"], value["read_until_ms"]]
        oldest = value["oldest_held_ms"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if any(type(each) is not int for each in numbers) or type(oldest) not in (int, type(None)):
        return None
    return Mark(numbers[0], inputs, oldest, str(record))
