"""Numbers of variable length, as Avro and Confluent's frames have them: zigzag, 64 bits at most."""

from __future__ import annotations

from streaming.values.framing import Malformed


def long_at(value: bytes, offset: int) -> tuple[int, int]:
    """Return the number of at most 64 bits at an offset, and the offset behind it."""
    byte = value[offset]
    offset += 1
    number, shift = byte & 0x7F, 7
    while byte > 0x7F:
        byte = value[offset]
        offset += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if shift > 70:
            raise Malformed
    if number >> 64:
        raise Malformed
    return (number >> 1) ^ -(number & 1), offset
