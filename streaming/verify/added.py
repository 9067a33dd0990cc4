"""What the service adds to a record: numbers, reject headers, and the record without them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from streaming.verify.records import Record

REJECT_HEADERS = ("reject-reason", "reject-topic", "reject-partition", "reject-offset")
NUMBER = re.compile(rb"[0-9]{1,19}")
NUMBER_MAX = 2**63 - 1

Place = tuple[str, int, int]


def number(value: bytes | None) -> int:
    """The number in a header, or -1 where it is none: ASCII digits, at most 2^63 - 1."""
    if value is None or not NUMBER.fullmatch(value):
        return -1
    whole = int(value)
    return whole if whole <= NUMBER_MAX else -1


def without(record: Record, count: int) -> Record:
    """The record without its last ``count`` headers, which the service added."""
    return replace(record, headers=record.headers[: len(record.headers) - count])


def tail(record: Record, prefix: str, names: tuple[str, ...]) -> list[bytes | None] | None:
    """The values of the last headers if they have these names (after the prefix), else None."""
    last = record.headers[-len(names) :]
    if [name for name, _ in last] != [prefix + name for name in names]:
        return None
    return [value for _, value in last]


@dataclass(frozen=True, slots=True)
class Reject:
    """A reject: where it lies, the input that it names, why, and what the input was."""

    told: str
    origin: Place
    reason: str
    content: int


def reject(record: Record, prefix: str) -> Reject | None:
    """What a reject says; None where its headers are missing or make no sense."""
    values = tail(record, prefix, REJECT_HEADERS)
    if values is None:
        return None
    reason, topic, *rest = values
    partition, offset = map(number, rest)
    if topic is None or reason is None or partition < 0 or offset < 0:
        return None
    origin = (topic.decode(errors="replace"), partition, offset)
    content = hash(without(record, len(REJECT_HEADERS)).content)
    return Reject(str(record), origin, reason.decode(errors="replace"), content)
