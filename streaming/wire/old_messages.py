"""Messages of formats 0 and 1, which brokers keep unchanged in segments from before Kafka 0.11.

::

    offset 8 | length 4 | CRC 4 | magic 1 | attributes 1 | timestamp 8 | key | value
                                                           (format 1)

Key and value begin with their size (int32; -1: null). The CRC covers what is behind it. A
compressed message's value is a set of such messages, and its offset is that of the last of them;
in format 1 their own offsets are relative.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from streaming.arrow.schemas import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP
from streaming.wire.decompression import decompressed

HEAD = struct.Struct(">qiIb")
"""Offset, length of what follows the length, CRC, magic."""
BEFORE_LENGTH = 12
LENGTH_MIN = (14, 22)
"""By format: CRC, magic, attributes, timestamp, two sizes."""
CHECKED_FROM = HEAD.size - 1
ATTRIBUTES, TIMESTAMP = struct.Struct(">b"), struct.Struct(">q")
SIZE = struct.Struct(">i")
CODEC, APPENDED = 0x07, 0x08
OLD_COMPRESSIONS = ("none", "gzip", "snappy", "lz4")


class Message(NamedTuple):
    """A message; ``timestamp`` in ms, -1 where the format has none."""

    offset: int
    timestamp: int
    magic: int
    attributes: int
    key: bytes | None
    value: bytes | None

    @property
    def timestamp_type(self) -> int:
        """Return whether the producer or the broker set the timestamp, numbered as in clients."""
        if self.magic == 0:
            return NO_TIMESTAMP
        return LOG_APPEND_TIME if self.attributes & APPENDED else CREATE_TIME


def messages(data: memoryview) -> list[Message]:
    """Return the message, or the messages in it if it is compressed (format 0 or 1).

    Raises ValueError if the bytes are damaged.
    """
    (outer,) = _set_of(data)
    codec = outer.attributes & CODEC
    if not codec:
        return [outer]
    if codec >= len(OLD_COMPRESSIONS):
        raise ValueError(f"compression {codec} is unknown")
    if outer.value is None:
        raise ValueError("it is compressed, but has no value")
    body = decompressed(memoryview(outer.value), OLD_COMPRESSIONS[codec], old=outer.magic == 0)
    inner = list(_set_of(memoryview(body)))
    if not inner or any(each.magic != outer.magic or each.attributes & CODEC for each in inner):
        raise ValueError("its value is not a set of messages")
    base = outer.offset - inner[-1].offset if outer.magic else 0
    appended = outer.timestamp_type == LOG_APPEND_TIME
    return [
        each._replace(
            offset=base + each.offset,
            timestamp=outer.timestamp if appended else each.timestamp,
            attributes=outer.attributes,
        )
        for each in inner
    ]


def _set_of(data: memoryview) -> Iterator[Message]:
    """Yield the messages of a set."""
    at = 0
    while at < len(data):
        if at + HEAD.size > len(data):
            raise ValueError("its end is missing")
        offset, length, crc, magic = HEAD.unpack_from(data, at)
        end = at + BEFORE_LENGTH + length
        if magic not in (0, 1) or length < LENGTH_MIN[magic] or end > len(data):
            raise ValueError(f"format {magic} and a length of {length:,} bytes cannot be")
        if zlib.crc32(data[at + CHECKED_FROM : end]) != crc:
            raise ValueError("its checksum does not match")
        (attributes,) = ATTRIBUTES.unpack_from(data, at + HEAD.size)
        timestamp, at = -1, at + HEAD.size + ATTRIBUTES.size
        if magic:
            (timestamp,), at = TIMESTAMP.unpack_from(data, at), at + TIMESTAMP.size
        key, at = _sized(data, at, end)
        value, at = _sized(data, at, end)
        if at != end:
            raise ValueError("it is longer than its key and value")
        yield Message(offset, timestamp, magic, attributes, key, value)


def _sized(data: memoryview, at: int, end: int) -> tuple[bytes | None, int]:
    """Return the key or value at a position, and the position behind it."""
    if at + SIZE.size > end:
        raise ValueError("its key or value is missing")
    (size,) = SIZE.unpack_from(data, at)
    at += SIZE.size
    if size == -1:
        return None, at
    if size < 0 or at + size > end:
        raise ValueError(f"a key or value of {size:,} bytes cannot be")
    return bytes(data[at : at + size]), at + size
