"""Names of headers, which confluent-kafka takes for text in UTF-8 without asking."""

from __future__ import annotations

from operator import methodcaller
from typing import Any

from streaming.errors import SequencerError

HEADERS = methodcaller("headers")
"""confluent-kafka returns headers that it could not read, half made, beside its error. Python's
interpreter looks for that error only the first times; called from C, it always does."""


def is_header_name(name: object) -> bool:
    """Return whether confluent-kafka can send a name.

    It cuts names at NUL, writes `b'x'` for bytes, and a lone surrogate ends the process.
    """
    try:
        return isinstance(name, str) and b"\0" not in name.encode()
    except UnicodeEncodeError:
        return False


def headers_of(message: Any) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers of confluent-kafka's message; SequencerError if it cannot read a name."""
    try:
        return tuple(HEADERS(message) or ())
    except (SystemError, UnicodeDecodeError) as error:  # asked again, it would end the process
        raise SequencerError(
            f"{message.topic()}/{message.partition()}@{message.offset()} has a header whose name "
            "is not UTF-8.",
            "The record was not read.",
            "Read on behind it. (The service delivers it, with U+FFFD in the name.)",
        ) from error
