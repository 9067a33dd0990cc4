"""Values with a format of their own: durations, names, topics, and the words of their faults."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer
from pydantic_core import PydanticCustomError

UNITS_MS = {
    "ms": 1,
    "s": 1000,
    "second": 1000,
    "seconds": 1000,
    "m": 60_000,
    "min": 60_000,
    "minute": 60_000,
    "minutes": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "hour": 3_600_000,
    "hours": 3_600_000,
    "day": 86_400_000,
    "days": 86_400_000,
}
SPAN_MS_MAX = 36_500 * UNITS_MS["days"]
TOPIC_MAX = 249
NAME_MAX = 100
SUBSCRIBER = "{subscriber}"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
BARE = re.compile(r"[A-Za-z0-9_-]+")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A length of time in ms."""

    ms: int

    def __str__(self) -> str:
        for name in ("days", "hours", "min", "s"):
            if self.ms and self.ms % UNITS_MS[name] == 0:
                return f"{self.ms // UNITS_MS[name]} {name}"
        return f"{self.ms} ms"


def key_path(parts: Iterable[Any]) -> str:
    """The path of a key as TOML writes it: ``pipelines."a b".input[0]``."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            written = part if BARE.fullmatch(part) else json.dumps(part, ensure_ascii=False)
            path += f".{written}" if path else written
    return path


def fault(message: str, *at: str | int) -> PydanticCustomError:
    """A validator's error about the key at the path ``at`` below what the validator looks at."""
    return PydanticCustomError("at", "{message}", {"at": at, "message": message})


def topic_fault(name: str) -> str | None:
    """Why Kafka would not take this name for a topic; None where it does."""
    if not 0 < len(name) <= TOPIC_MAX:
        return f"a topic's name has 1 to {TOPIC_MAX} characters, this one {len(name)}"
    if name in (".", ".."):
        return f"{name!r} is no Kafka topic; use another name"
    if not re.fullmatch(r"[A-Za-z0-9._-]+", name):
        return f"{name!r} is no Kafka topic; use letters, digits, '.', '_' and '-' alone"
    return None


def name_fault(name: str) -> str | None:
    """Why a name cannot be part of folders, topics and transactional ids; None where it can."""
    if NAME.fullmatch(name) and len(name) <= NAME_MAX:
        return None
    shown = repr(name[:NAME_MAX]) + f"… ({len(name):,} characters)" * (len(name) > NAME_MAX)
    return (
        f"{shown} cannot name topics, folders and transactional ids; use letters, "
        f"digits, '.', '_' and '-', beginning with a letter or digit, at most {NAME_MAX} of them"
    )


def _span(value: Any) -> Span:
    if isinstance(value, Span):
        return value
    pattern = r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([a-z]+)\s*"
    match = re.fullmatch(pattern, value) if _is_text(value) else None
    if not match or match.group(2) not in UNITS_MS:
        raise ValueError('is not a length of time; write for instance "200 ms", "5 s" or "7 days"')
    exact_ms = Fraction(match.group(1)) * UNITS_MS[match.group(2)]
    if exact_ms.denominator != 1:
        raise ValueError('is not a whole number of milliseconds; write for instance "1.5 s"')
    span = Span(int(exact_ms))
    if span.ms > SPAN_MS_MAX:
        raise ValueError(f"is longer than a hundred years; write {Span(SPAN_MS_MAX)} or less")
    return span


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _positive(span: Span) -> Span:
    if span.ms < 1:
        raise ValueError('must be longer than 0; write for instance "5 s"')
    return span


def _topic(name: str) -> str:
    if wrong := topic_fault(name):
        raise ValueError(wrong)
    return name


def _group_topic(name: str) -> str:
    _topic(name.replace(SUBSCRIBER, "x"))
    return name


def _name(name: str) -> str:
    if wrong := name_fault(name):
        raise ValueError(wrong)
    return name


def _member(name: str) -> str:
    if not 0 < len(name.encode()) <= TOPIC_MAX:  # as commands take them
        raise ValueError(
            f"{name[:NAME_MAX]!r} cannot name a group or subscriber; names have 1 to {TOPIC_MAX} "
            "bytes"
        )
    return name


def _filled(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty; leave it out for the default")
    return text.strip()


def _printable(text: str) -> str:
    if CONTROL.search(text):
        raise ValueError("has control characters; use printable ones")
    return text


def printable_text(text: str) -> str:
    """Return the text without blanks around it; ValueError where nothing is left to print."""
    return _printable(_filled(text))


Duration = Annotated[Span, BeforeValidator(_span), PlainSerializer(str)]
PositiveDuration = Annotated[
    Span, BeforeValidator(_span), AfterValidator(_positive), PlainSerializer(str)
]
TopicName = Annotated[str, AfterValidator(_topic)]
OutputTopic = Annotated[str, AfterValidator(_group_topic)]
Name = Annotated[str, AfterValidator(_name)]
Member = Annotated[str, AfterValidator(_member)]
Text = Annotated[str, AfterValidator(printable_text)]
Printable = Annotated[str, AfterValidator(_printable)]
