"""Which rejects are meant: reasons, and conditions on where they came from and what they are."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from streaming.errors import ConfigError
from streaming.kafka.reading import Record
from streaming.places import Place

Headers = tuple[tuple[str, bytes | None], ...]

ADDED = ("reject-reason", "reject-topic", "reject-partition", "reject-offset")
MORE = ("reject-after", "reject-gap", "reject-detail")
"""Behind these, where there is something to say."""
CUT = (b"without its value (", b"without all of it (")
"""In a detail: the reject is not the whole record."""
CONDITION = re.compile(
    r"\s*(key|topic|partition|offset|timestamp|after|gap|header\('(?P<header>[^']+)'\))"
    r"\s*(?P<compare>!=|<=|>=|=|<|>)\s*(?P<value>.*?)\s*",
    re.DOTALL,
)
COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NUMBERS = ("partition", "offset", "timestamp")
REMEDY = (
    'Write for instance --where "key = IBM", --where "header(\'region\') = eu" or '
    '--where "timestamp >= 2026-11-22T09:00Z".'
)


@dataclass(frozen=True, slots=True)
class Reject:
    """A reject as the record that it was: without the headers that tell of its rejection.

    ``origin`` is where it stood as an input; ``timestamp`` in ms. ``after`` and ``gap``: its
    headers `reject-after` and `reject-gap`.
    """

    reason: str
    origin: Place
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: int
    after: bytes | None = None
    gap: bytes | None = None

    @classmethod
    def of(cls, record: Record, prefix: str) -> Reject | None:
        """Return that of a record; None where it is no reject, or not the whole record."""
        headers = record.headers
        more: dict[str, bytes | None] = {}
        for name in reversed(MORE):
            if headers and headers[-1][0] == prefix + name:
                more[name], headers = headers[-1][1], headers[:-1]
        if any(text in (more.get("reject-detail") or b"") for text in CUT):
            return None
        added = headers[-len(ADDED) :]
        if tuple(name for name, _ in added) != tuple(prefix + name for name in ADDED):
            return None
        reason, topic, partition, offset = ((value or b"").decode() for _, value in added)
        own = headers[: -len(ADDED)]
        origin = (topic, int(partition), int(offset))
        places = (more.get("reject-after"), more.get("reject-gap"))
        return cls(reason, origin, record.key, record.value, own, record.timestamp, *places)


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison; of texts with ``=`` and ``!=``, of numbers with the others."""

    field: str
    header: str | None
    compare: str
    value: Any

    @classmethod
    def read(cls, text: str) -> Condition:
        """Of ``FIELD COMPARE VALUE``; ConfigError where it is none."""
        found = CONDITION.fullmatch(text)
        if found is None:
            raise ConfigError(f"--where {text!r} is not a condition.", "Nothing was sent.", REMEDY)
        field, header, compare = found[1], found["header"], found["compare"]
        value: Any = found["value"]
        if len(value) > 1 and value[0] == value[-1] == "'":
            value = value[1:-1]
        if field in NUMBERS or compare not in ("=", "!="):
            value = _number(value, field)
            if value is None:
                raise ConfigError(
                    f"--where {text!r} compares with what is not a number or time.",
                    "Nothing was sent.",
                    REMEDY,
                )
        return cls("header" if header else field, header, compare, value)

    def holds(self, reject: Reject) -> bool:
        """Return whether a reject meets it; what is missing or no number meets ``!=`` alone."""
        topic, partition, offset = reject.origin
        fields: dict[str, Any] = {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": reject.timestamp,
            "key": reject.key,
            "after": reject.after,
            "gap": reject.gap,
        }
        if self.field == "header":
            named = (value for name, value in reversed(reject.headers) if name == self.header)
            fields["header"] = next(named, None)
        found = fields[self.field]
        if isinstance(found, bytes):
            found = found.decode(errors="surrogateescape")
        if isinstance(self.value, int) and isinstance(found, str):
            found = _number(found, self.field)
        if found is None:
            return self.compare == "!="
        return COMPARE[self.compare](found, self.value)


@dataclass(frozen=True, slots=True)
class Choice:
    """What to send back. ``to``: a topic other than the input it came from; ``most``: a limit.

    ``again``: also what came back as a reject after it had been sent back.
    """

    reasons: frozenset[str]
    conditions: tuple[Condition, ...] = ()
    to: str | None = None
    again: bool = False
    most: int | None = None

    @classmethod
    def of(cls, reasons: Iterable[str], where: Iterable[str], **more: Any) -> Choice:
        """Of a command's words; ConfigError where a condition is none."""
        return cls(frozenset(reasons), tuple(map(Condition.read, where)), **more)

    def wants(self, reject: Reject) -> bool:
        """Return whether reason and conditions fit."""
        fits = not self.reasons or reject.reason in self.reasons
        return fits and all(each.holds(reject) for each in self.conditions)


def _number(text: str, field: str) -> int | None:
    """A number, or of a time the ms since 1970; None where it is none."""
    try:
        return int(text)
    except ValueError:
        if field != "timestamp":
            return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
