"""Progress marks, held against deliveries and inputs.

Faults: `bad-mark` (no mark, or one beyond what is there), `false-mark` (a record comes behind
`output_end` though a mark says that it is complete). Records whose bytes another one has, too, are
passed over, and so are those that are held still.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from streaming.places import Place
from streaming.verify.columns import Column
from streaming.verify.faults import Verdict
from streaming.verify.logs import Names, Values
from streaming.verify.origins import Naming, content_of
from streaming.verify.records import Record

Ends = Mapping[tuple[str, int], int]
"""The end of each partition of inputs."""


class Mark(NamedTuple):
    """What a mark says; ``oldest_ms`` None where nothing is held."""

    end: int
    inputs: Mapping[str, Mapping[str, int]]
    oldest_ms: int | None
    shown: str

    def covers(self, place: Place) -> bool:
        """Return whether it reports a record."""
        topic, partition, offset = place
        return offset < self.inputs.get(topic, {}).get(str(partition), 0)


ByPartition = dict[int, list[Mark]]


class Marks:
    """The marks of a pipeline's output; ``first`` of a delivery's repeats counts, else the last.

    Kept are the offset of each content in each output partition, and of each content the place and
    time (ms) of its input, or that several have it.
    """

    def __init__(
        self, prefix: str, naming: Naming, *, first: bool, by_partition: ByPartition | None = None
    ) -> None:
        self.prefix = prefix
        self.naming = naming
        self.first = first
        self.by_partition: ByPartition = {} if by_partition is None else by_partition
        self.faults: list[tuple[str, str]] = []
        self._delivered: Names[tuple[int, int]] = Names(Column(), Column())
        self._offsets = Column()
        self._sent: Names[tuple[int]] = Names(Column())
        self._places = Values()
        self._times_ms = Column()
        self._is_ambiguous = Column()

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
        return Marks(self.prefix, self.naming, first=self.first, by_partition=self.by_partition)

    def taken(self, outputs: Iterable[Record]) -> Iterator[Record]:
        """The deliveries, without a header `origin`; their places are noted."""
        for record in outputs:
            if self.by_partition and (message := self.naming(record, self.prefix)) is not None:
                content = content_of(record, len(record.headers) - message[0])
                delivered = self._delivered.find((content, record.partition))
                if delivered < 0:
                    self._delivered.append((content, record.partition))
                    self._offsets.append(record.offset)
                elif not self.first:
                    self._offsets[delivered] = record.offset
            yield record

    def held_against(self, inputs: Iterable[Record]) -> Iterator[Record]:
        """The inputs, whose places are noted."""
        for record in inputs:
            if self.by_partition:
                content = (content_of(record, len(record.headers)),)
                known = self._sent.find(content)
                if known >= 0:
                    self._is_ambiguous[known] = 1
                else:
                    self._sent.append(content)
                    self._places.append(record.place)
                    self._times_ms.append(record.timestamp)
                    self._is_ambiguous.append(0)
            yield record

    def finish(self, verdict: Verdict) -> None:
        """Report what was found, after all inputs."""
        for (content, partition), offset in zip(self._delivered, self._offsets, strict=True):
            sent = self._sent.find((content,))
            if sent >= 0 and not self._is_ambiguous[sent]:
                self._judge(self._places[sent], self._times_ms[sent], partition, offset)
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
