"""All input records in a few numbers each, and which message each of them became."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from streaming.arrow.key_text import escaped
from streaming.places import Place
from streaming.verify.records import Record

Ends = Mapping[tuple[str, int], int] | None
"""By topic and partition the offset below which everything has had its time; None: all has."""


def is_due(place: Place, ends: Ends) -> bool:
    """Whether what stands at a place has had its time."""
    topic, partition, offset = place
    return ends is None or offset < ends.get((topic, partition), 0)


@dataclass(slots=True)
class _Partition:
    """One input partition: the offsets of its records, rising, and their numbers."""

    topic: str
    number: int
    offsets: array[int] = field(default_factory=lambda: array("q"))
    records: array[int] = field(default_factory=lambda: array("q"))


class Inputs:
    """The input records under numbers, each partition's in its order.

    ``message`` and ``rejected`` are filled by the judge: the message that a record became (-1:
    none is there yet), and whether it was rejected. ``content`` is a hash of key, value, headers
    and timestamp; about 40 bytes are kept for a record. ``causes``: the records that have a header
    `cause_header`, and what it says.
    """

    def __init__(
        self, records: Iterable[Record], header_names: tuple[str, ...], cause_header: str = ""
    ) -> None:
        self.partitions: list[_Partition] = []
        self.partition = array("i")
        self.offset = array("q")
        self.content = array("q")
        self.senders: list[bytes | None] = []
        self.headers: list[tuple[tuple[bool, bytes | None], ...]] = []
        self.causes: list[tuple[int, bytes]] = []
        by_name: dict[tuple[str, int], int] = {}
        same: dict[object, object] = {}
        for record in records:
            name = (record.topic, record.partition)
            if name not in by_name:
                by_name[name] = len(self.partitions)
                self.partitions.append(_Partition(*name))
            at = by_name[name]
            if cause_header and (named := record.header(cause_header)[1]) is not None:
                self.causes.append((len(self.offset), named))
            self.partitions[at].offsets.append(record.offset)
            self.partitions[at].records.append(len(self.offset))
            self.partition.append(at)
            self.offset.append(record.offset)
            self.content.append(hash(record.content))
            values = tuple(record.header(header_name) for header_name in header_names)
            self.senders.append(same.setdefault(record.key, record.key))  # type: ignore[arg-type]
            self.headers.append(same.setdefault(values, values))  # type: ignore[arg-type]
        self._by_name = by_name
        self._by_content: dict[int, int] | None = None
        self.message = array("q", [-1]) * len(self.offset)
        self.rejected = bytearray(len(self.offset))

    def __len__(self) -> int:
        return len(self.offset)

    def find(self, place: Place) -> int | None:
        """The number of the record at a place, if it is there."""
        topic, partition, offset = place
        at = self._by_name.get((topic, partition))
        if at is None:
            return None
        there = self.partitions[at]
        position = bisect_left(there.offsets, offset)
        if position == len(there.offsets) or there.offsets[position] != offset:
            return None
        return there.records[position]

    def same(self, content: int) -> int:
        """The first record of a content, or -1."""
        if self._by_content is None:
            numbers = range(len(self) - 1, -1, -1)
            self._by_content = dict(zip(reversed(self.content), numbers, strict=True))
        return self._by_content.get(content, -1)

    def where(self, record: int) -> str:
        """A record for people."""
        where = self.partitions[self.partition[record]]
        sender = self.senders[record]
        key = "null" if sender is None else escaped(sender)
        return f"{where.topic}/{where.number}@{self.offset[record]} (key {key})"

    def pairs(self, causes: Iterable[tuple[Place, Place]]) -> list[tuple[int, int]]:
        """Places of inputs (cause, effect) as numbers of messages, where both became one."""
        numbered = []
        for places in causes:
            records = [self.find(place) for place in places]
            messages = [-1 if record is None else self.message[record] for record in records]
            if min(messages) >= 0:
                numbered.append((messages[0], messages[1]))
        return numbered

    def due(self, record: int, ends: Ends) -> bool:
        """Whether a record has had its time."""
        where = self.partitions[self.partition[record]]
        return is_due((where.topic, where.number, self.offset[record]), ends)


class Matching:
    """The inputs that wait for the message that they became, by content, in order of arrival.

    Equal contents of one partition differ by their order alone. Where they come from several
    partitions nothing shows which is which; these are in ``ambiguous``. Records that were rejected
    wait for nothing.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        rejected = np.frombuffer(inputs.rejected, np.int8)
        waiting = np.flatnonzero(rejected == 0)
        contents = np.frombuffer(inputs.content, np.int64)[waiting]
        order = np.argsort(contents, kind="stable")
        self._records = array("q", waiting[order].tobytes())
        self._contents = array("q", contents[order].tobytes())
        self._next: dict[int, int] = {}
        """Which of several records with one content is the next."""
        partitions = np.frombuffer(inputs.partition, np.int32)[waiting[order]]
        same = np.flatnonzero(contents[order][1:] == contents[order][:-1])
        elsewhere = same[partitions[same] != partitions[same + 1]]
        self.ambiguous: set[int] = {self._contents[at] for at in elsewhere.tolist()}

    def take(self, content: int, message: int) -> int:
        """The record that a message was, in order of arrival; -1 where none is left."""
        at = self._next.get(content)
        if at is None:
            at = bisect_left(self._contents, content)
        if at == len(self._contents) or self._contents[at] != content:
            return -1
        record = self._records[at]
        if self.inputs.message[record] >= 0:
            return -1
        if at + 1 < len(self._contents) and self._contents[at + 1] == content:
            self._next[content] = at + 1
        self.inputs.message[record] = message
        return record
