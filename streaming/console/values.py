"""Values as pages and addresses have them: keys, places, times, payloads."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from streaming.arrow.key_text import escaped
from streaming.disciplines.channels.sql import header_name
from streaming.kafka.newest import Found
from streaming.places import Place

PAYLOAD_BYTES_MAX = 4_096
INDENTED_MAX = 4 * PAYLOAD_BYTES_MAX
"""The most characters of indented JSON: what nests deep has most of them before its lines."""
KEY_SHOWN_MAX = 80
HEADERS_MAX = 100
"""Headers of a record that its page shows."""


def encoded_key(key: bytes | str) -> str:
    """Return a key as addresses have it."""
    return base64.urlsafe_b64encode(key.encode() if isinstance(key, str) else key).decode()


def decoded_key(code: str) -> bytes:
    """Return the key that :func:`encoded_key` was given. ValueError for others."""
    return base64.b64decode(code, altchars=b"-_", validate=True)


def channel_of(settings: Any, record: Found) -> bytes | None:
    """Return a record's channel, or its key if the pipeline has no channels.

    None if there is none, or if the pipeline reads channels from values or by SQL.
    """
    channel = getattr(settings, "channel", "key")
    if channel == "key":
        return record.key
    name = header_name(channel)
    return None if name is None else record.header(name)


def link(name: str, place: str) -> str:
    """Return the address of a record's page."""
    return f"/p/{name}/record/{encoded_key(place)}"


def place_in(text: str) -> Place:
    """Read topic/partition@offset. ValueError where it is none."""
    topic, _, rest = text.strip().rpartition("/")
    partition, _, offset = rest.partition("@")
    if not (topic and is_number(partition) and is_number(offset)):
        raise ValueError(f"{text[:100]!r} is not a place; write topic/partition@offset")
    return topic, int(partition), int(offset)


def is_number(text: str) -> bool:
    """Return whether an address or a form has a number of at most 19 digits here."""
    return text.isascii() and text.isdecimal() and len(text) < 20


def key_shown(key: bytes | None) -> str:
    """Return a record's key, cut, as the fields of forms take it; nothing where it is null."""
    return "" if key is None else escaped(key)[:KEY_SHOWN_MAX] or "(empty)"


def payload(data: bytes | None) -> dict[str, str]:
    """Return bytes for people: how they are shown, and the text, cut. Never run.

    Objects and lists of JSON are indented, their numbers unchanged; anything else is text.
    """
    if data is None:
        return {"kind": "null", "text": ""}
    cut = f", the first {PAYLOAD_BYTES_MAX:,} of {len(data):,} bytes"
    more = cut if len(data) > PAYLOAD_BYTES_MAX else f", {len(data):,} bytes"
    part = data[:PAYLOAD_BYTES_MAX]
    try:
        if len(data) <= PAYLOAD_BYTES_MAX and data.lstrip()[:1] in {b"{", b"["}:
            indented = msgspec.json.format(data, indent=2).decode()
            if len(indented) <= INDENTED_MAX:
                return {"kind": "JSON" + more, "text": indented}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        text = part.decode() if len(data) <= PAYLOAD_BYTES_MAX else part.decode(errors="ignore")
        if "\0" not in text:
            return {"kind": "text" + more, "text": text}
    except UnicodeDecodeError:
        pass
    return {"kind": "bytes" + more, "text": part.hex(" ", 2)}


def headers(record: Found, most: int = HEADERS_MAX) -> Sequence[tuple[str, dict[str, str]]]:
    """Return a record's first headers for people."""
    return [(cut(name), payload(value)) for name, value in record.headers[:most]]


def cut(text: str) -> str:
    """Return the beginning of a text that stands beside others."""
    return text if len(text) <= KEY_SHOWN_MAX else text[: KEY_SHOWN_MAX - 1] + "…"


def when(timestamp_ms: int) -> str:
    """Return a record's time in UTC; the number where no calendar has it."""
    try:
        at = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"
    return at.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
