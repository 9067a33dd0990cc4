"""The header `origin` of deliveries, held against the inputs that they name.

It is taken off before the judge of the discipline looks. Fault: `wrong-origin` (no place, no record
there, a record with other bytes, two messages of one record or two records of one message).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from streaming.places import Place
from streaming.verify.added import without
from streaming.verify.columns import Column, Index
from streaming.verify.faults import Verdict
from streaming.verify.logs import Names, Values
from streaming.verify.records import Record

ORIGIN = re.compile(rb"([A-Za-z0-9._-]{1,249})/([0-9]{1,10})@([0-9]{1,19})")

Message = tuple[int, int]
"""How many headers the service added to a delivery, and a hash of its message's name."""
Naming = Callable[[Record, str], Message | None]
"""Names a delivery's message, for a header prefix; None where the delivery is none."""


def read_origin(value: bytes | None) -> Place | None:
    """The place that a header `origin` names; None where it is none."""
    match = ORIGIN.fullmatch(value or b"")
    if match is None:
        return None
    topic, partition, offset = match.groups()
    return topic.decode(), int(partition), int(offset)


def origin_of(record: Record, prefix: str) -> Place | None:
    """The place that a delivery's header `origin` names, its last one; None where it has none.

    Any other header of that name is its input's own, as where another pipeline wrote that.
    """
    if not record.headers or record.headers[-1][0] != prefix + "origin":
        return None
    return read_origin(record.headers[-1][1])


def text_of(place: Place | None) -> str | None:
    """A place as the header, and people, write it."""
    return None if place is None else f"{place[0]}/{place[1]}@{place[2]}"


class Origins:
    """What deliveries say of their inputs; ``prefix`` of headers.

    Of each place that is named: a hash of what the first delivery that names it has of the input,
    its message, itself, and whether an input lies there; of each message the place that it names.
    """

    def __init__(self, prefix: str, naming: Naming) -> None:
        self.prefix = prefix
        self.naming = naming
        self.faults: list[str] = []
        self._places: Names[Place] = Names(Values(), Column(), Column())
        self._contents = Column()
        self._messages = Column()
        self._shown = Values()
        self._inputs = Column()
        self._place_of = Index()

    def taken(self, outputs: Iterable[Record]) -> Iterator[Record]:
        """The deliveries without their header `origin`, which is noted."""
        name = self.prefix + "origin"
        for record in outputs:
            if not record.headers or record.headers[-1][0] != name:
                yield record
                continue
            place, bare = read_origin(record.headers[-1][1]), without(record, 1)
            if place is None:
                self.faults.append(f"{record}: {record.headers[-1][1]!r} is not a place")
            else:
                self._note(bare, place)
            yield bare

    def held_against(self, inputs: Iterable[Record]) -> Iterator[Record]:
        """The inputs, each held against the deliveries that name it."""
        for record in inputs:
            named = self._places.find(record.place) if len(self._places) else -1
            if named >= 0 and not self._inputs[named]:
                self._inputs[named] = 1
                if self._contents[named] != content_of(record, len(record.headers)):
                    shown = self._shown[named]
                    self.faults.append(f"{shown} names {record}, which is another message")
            yield record

    def finish(self, verdict: Verdict) -> None:
        """Report what was found, after all inputs."""
        for named, is_there in enumerate(self._inputs):
            if not is_there:
                shown, place = self._shown[named], self._places[named]
                self.faults.append(f"{shown} names {text_of(place)}: there is no such input")
        for witness in self.faults:
            verdict.find("wrong-origin", witness)

    def _note(self, record: Record, place: Place) -> None:
        message = self.naming(record, self.prefix)
        if message is None:
            return  # its discipline's judge says why
        added, name = message
        content = content_of(record, len(record.headers) - added)
        named = self._places.find(place)
        if named < 0:
            named = self._places.append(place)
            self._contents.append(content)
            self._messages.append(name)
            self._shown.append(str(record))
            self._inputs.append(0)
        if (self._contents[named], self._messages[named]) != (content, name):
            self.faults.append(f"{record} and {self._shown[named]} both name {text_of(place)}")
            return
        before = self._place_of.get(name)
        if before < 0:
            self._place_of.put(name, named)
        elif before != named:
            self.faults.append(f"{record} names {place}; its message is {self._places[before]}")


def of_channel(record: Record, _prefix: str) -> Message:
    """A channel's delivery is a message of its own."""
    return 2, hash(record.content)


def of_label(record: Record, _prefix: str) -> Message:
    """So is a record that got a label, which got an epoch as well."""
    return 4, hash(record.content)


def of_group(record: Record, prefix: str) -> Message | None:
    """All copies of a group's message have its name."""
    from streaming.verify.group_deliveries import read_added  # noqa: PLC0415  (a quick `why`)

    added = read_added(record, prefix)
    if added is None:
        return None
    return added.count, hash((added.group, added.version, added.number))


def of_multicast(record: Record, prefix: str) -> Message | None:
    """All copies of a message have its stamp; a notice is no message of an input."""
    from streaming.verify.multicast_deliveries import read_added  # noqa: PLC0415  (likewise)

    added = read_added(record, prefix)
    return None if added is None or added.notice else (added.count, hash(added.stamp))


def content_of(record: Record, own: int) -> int:
    """Return a hash of what a delivery has of its input, whose ``own`` headers come first."""
    return hash((record.value, record.headers[:own], record.timestamp))
