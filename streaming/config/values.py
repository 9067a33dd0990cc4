"""Values with a format of their own: durations, names, topics."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer

UNITS_MS = {
    "ms": 1,
    "s": 1000,
    "second": 1000,
    "seconds": 1000,
    "min": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "h": 3_600_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
    "day": 86_400_000,
    "days": 86_400_000,
}
TOPIC_MAX = 249
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A length of time in ms."""

    ms: int

    def __str__(self) -> str:
        for name in ("days", "hours", "min", "s"):
            if self.ms and self.ms % UNITS_MS[name] == 0:
                return f"{self.ms // UNITS_MS[name]} {name}"
        return f"{self.ms} ms"


def _span(value: Any) -> Span:
    if isinstance(value, Span):
        return value
    match = re.fullmatch(r"\s*(\d{1,15})\s*([a-z]+)\s*", value) if isinstance(value, str) else None
    if not match or match.group(2) not in UNITS_MS:
        raise ValueError('is not a length of time; write for instance "200 ms", "5 s" or "7 days"')
    return Span(int(match.group(1)) * UNITS_MS[match.group(2)])


def _positive(span: Span) -> Span:
    if span.ms < 1:
        raise ValueError('must be longer than 0; write for instance "5 s"')
    return span


def _topic(name: str) -> str:
    good = re.fullmatch(r"[A-Za-z0-9._-]+", name) and name not in (".", "..")
    if not good or len(name) > TOPIC_MAX:
        raise ValueError(
            f"{name!r} is no Kafka topic; use letters, digits, '.', '_' and '-', "
            f"at most {TOPIC_MAX} of them"
        )
    return name


def _group_topic(name: str) -> str:
    _topic(name.replace("{subscriber}", "x"))
    return name


def _name(name: str) -> str:
    if not NAME.fullmatch(name) or len(name) > 100:
        raise ValueError(
            f"{name!r} names folders and transactional ids; use letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit, at most 100 of them"
        )
    return name


def _member(name: str) -> str:
    if not name or "," in name or len(name) > TOPIC_MAX:
        raise ValueError(f"{name!r} is no name of a member; it must not be empty nor have a comma")
    return name


Duration = Annotated[Span, BeforeValidator(_span), PlainSerializer(str)]
PositiveDuration = Annotated[
    Span, BeforeValidator(_span), AfterValidator(_positive), PlainSerializer(str)
]
TopicName = Annotated[str, AfterValidator(_topic)]
OutputTopic = Annotated[str, AfterValidator(_group_topic)]
Name = Annotated[str, AfterValidator(_name)]
Member = Annotated[str, AfterValidator(_member)]
