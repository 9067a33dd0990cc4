"""All input records in a few numbers each, and which message each of them became."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from streaming.arrow.key_text import escaped
from streaming.places import Place
from streaming.verify.columns import Column, Index, Strand, paced
from streaming.verify.logs import Values
from streaming.verify.records import Record

Ends = Mapping[tuple[str, int], int] | None
"""By topic and partition the offset below which everything has had its time; None: all has."""


def is_due(place: Place, ends: Ends) -> bool:
    """Return whether what stands at a place has had its time."""
    topic, partition, offset = place
    return ends is None or offset < ends.get((topic, partition), 0)


@dataclass(slots=True)
class _Partition:
    """One input partition: the numbers of its records, by rising offset."""

    topic: str
    number: int
    records: Strand


class Inputs:
    """The input records under numbers, each partition's in its order.

    ``message`` and ``rejected`` are filled by the judge: the message that a record became (-1:
    none is there yet), and whether it was rejected. ``content`` is a hash of key, value, headers
    and timestamp. ``causes``: the records that have a header `cause_header`;
    ``causes_named``: what it says.
    """

    def __init__(
        self, records: Iterable[Record], header_names: tuple[str, ...], cause_header: str = ""
    ) -> None:
        self.partitions: list[_Partition] = []
        self.partition = Column()
        self.offset = Column()
        self.content = Column()
        self.senders = Values()
        self.headers = Values()
        self.causes = Column()
        self.causes_named = Values()
        by_name: dict[tuple[str, int], int] = {}
        store = Column()
        for record in paced(records):
            name = (record.topic, record.partition)
            if name not in by_name:
                by_name[name] = len(self.partitions)
                self.partitions.append(_Partition(*name, Strand(store)))
            at = by_name[name]
            if cause_header and (named := record.header(cause_header)) is not None:
                self.causes.append(len(self.offset))
                self.causes_named.append(named)
            self.partitions[at].records.append(len(self.offset))
            self.partition.append(at)
            self.offset.append(record.offset)
            self.content.append(hash(record.content))
            self.senders.append(record.key)
            self.headers.append(
                tuple((record.has_header(n), record.header(n)) for n in header_names)
            )
        self._by_name = by_name
        self._by_content: Index | None = None
        self.message = Column(len(self.offset), -1)
        self.rejected = Column(len(self.offset))

    def __len__(self) -> int:
        return len(self.offset)

    def find(self, place: Place) -> int | None:
        """The number of the record at a place, if it is there."""
        topic, partition, offset = place
        at = self._by_name.get((topic, partition))
        if at is None:
            return None
        records = self.partitions[at].records
        position = bisect_left(records, offset, key=self.offset.__getitem__)
        if position == len(records) or self.offset[records[position]] != offset:
            return None
        return records[position]

    def same(self, content: int) -> int:
        """The first record of a content, or -1."""
        if self._by_content is None:
            self._by_content = Index()
            for record in paced(range(len(self) - 1, -1, -1)):
                self._by_content.put(self.content[record], record)
        return self._by_content.get(content)

    def where(self, record: int) -> str:
        """A record for people."""
        where = self.partitions[self.partition[record]]
        sender = self.senders[record]
        key = "null" if sender is None else escaped(sender)
        return f"{where.topic}/{where.number}@{self.offset[record]} (key {key})"

    def pairs(self, causes: Iterable[tuple[Place, Place]]) -> Iterator[tuple[int, int]]:
        """Yield places of inputs (cause, effect) as numbers of messages, where both became one."""
        for places in causes:
            records = [self.find(place) for place in places]
            messages = [-1 if record is None else self.message[record] for record in records]
            if min(messages) >= 0:
                yield messages[0], messages[1]

    def due(self, record: int, ends: Ends) -> bool:
        """Return whether a record has had its time."""
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
        self.ambiguous: set[int] = set()
        self._repeated: set[int] = set()
        self._first = Index()
        self._next = Column(len(inputs), -1)
        for record in paced(range(len(inputs) - 1, -1, -1)):
            if inputs.rejected[record]:
                continue
            content = inputs.content[record]
            later = self._next[record] = self._first.get(content)
            if later >= 0 and inputs.partition[later] != inputs.partition[record]:
                self.ambiguous.add(content)
            self._first.put(content, record)

    def take(self, content: int, message: int) -> int:
        """The record that a message was, in order of arrival; -1 where none is left."""
        record = self._first.get(content)
        if record < 0 or self.inputs.message[record] >= 0:
            return -1
        if self._next[record] >= 0:
            self._repeated.add(content)
            self._first.put(content, self._next[record])
        self.inputs.message[record] = message
        return record

    def open_contents(self, ends: Ends) -> set[int]:
        """Return the contents of which a record that is not due still waits, behind others.

        Its message may be one that was taken for an earlier record, whose own is not there yet.
        """
        firsts = ((content, self._first.get(content)) for content in self._repeated)
        return {
            content
            for content, record in firsts
            if self.inputs.message[record] < 0 and not self.inputs.due(record, ends)
        }
