"""What the service adds to a record: numbers, reject headers, and the record without them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from streaming.places import Place
from streaming.verify.records import Record

REJECT_HEADERS = ("reject-reason", "reject-topic", "reject-partition", "reject-offset")
MORE_HEADERS = ("reject-after", "reject-gap", "reject-detail")
"""Behind these, where there is something to say."""
NUMBER = re.compile(rb"[0-9]{1,19}")
NUMBER_MAX = 2**63 - 1


def number(value: bytes | None) -> int:
    """The number in a header, or -1 where it is none: ASCII digits, at most 2^63 - 1."""
    if value is None or not NUMBER.fullmatch(value):
        return -1
    whole = int(value)
    return whole if whole <= NUMBER_MAX else -1


def without(record: Record, count: int) -> Record:
    """The record without its last ``count`` headers, which the service added."""
    headers = record.headers[: len(record.headers) - count]
    where = (record.topic, record.partition, record.offset, record.timestamp)
    return Record(*where, record.key, record.value, headers)


def tail(record: Record, prefix: str, names: tuple[str, ...]) -> list[bytes | None] | None:
    """The values of the last headers if they have these names (after the prefix), else None."""
    last = record.headers[-len(names) :]
    if [name for name, _ in last] != [prefix + name for name in names]:
        return None
    return [value for _, value in last]


@dataclass(frozen=True, slots=True)
class Reject:
    """A reject: where it lies, the input that it names, why, and what the input was.

    ``without_value``: its topic refused the whole record. ``without_all``: even that. ``after``,
    ``gap``, ``detail``: the headers `reject-after`, `reject-gap` and `reject-detail`.
    """

    where: str
    origin: Place
    reason: str
    content: int
    without_value: bool = False
    without_all: bool = False
    after: bytes | None = None
    gap: bytes | None = None
    detail: bytes = b""

    def is_of(self, record: Record) -> bool:
        """Return whether it is this input, or what its topic took of it."""
        if self.without_all:
            return True
        shown = replace(record, value=None) if self.without_value else record
        return self.content == hash(shown.content)


def reject(record: Record, prefix: str) -> Reject | None:
    """What a reject says; None where its headers are missing or make no sense."""
    bare, more = _more(record, prefix)
    detail = more.get("reject-detail", b"")
    values = tail(bare, prefix, REJECT_HEADERS)
    if values is None:
        return None
    reason, topic, *rest = values
    partition, offset = map(number, rest)
    if topic is None or reason is None or partition < 0 or offset < 0:
        return None
    origin = (topic.decode(errors="replace"), partition, offset)
    own = without(bare, len(REJECT_HEADERS))
    return Reject(
        str(record),
        origin,
        reason.decode(errors="replace"),
        hash(own.content),
        own.value is None and b"without its value (" in detail,
        (own.key, own.value, own.headers) == (None, None, ()) and b"without all of it" in detail,
        more.get("reject-after"),
        more.get("reject-gap"),
        detail,
    )


def without_reject(record: Record, prefix: str) -> Record:
    """The record without the headers that make it a reject."""
    bare, _ = _more(record, prefix)
    return without(bare, len(REJECT_HEADERS))


def _more(record: Record, prefix: str) -> tuple[Record, dict[str, bytes]]:
    """The record without what may stand behind the headers of a reject, and that."""
    more: dict[str, bytes] = {}
    for name in reversed(MORE_HEADERS):
        behind = len(record.headers) - len(more) - 1
        if behind >= 0 and record.headers[behind][0] == prefix + name:
            more[name] = record.headers[behind][1] or b""
    return without(record, len(more)), more
