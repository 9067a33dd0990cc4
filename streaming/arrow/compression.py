"""Compression as Kafka's record batches have it."""

from __future__ import annotations

import struct

import lz4.frame
import pyarrow as pa

from streaming.arrow.ipc import SMALL

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their numbers in a batch's attributes."""

WRITTEN = ("none", "gzip", "lz4", "zstd")
"""Those that the service writes itself; Kafka's snappy has frames of its own."""

LZ4_HEAD = struct.Struct("<IBBB")
SNAPPY_HEAD, SNAPPY_HEAD_SIZE = b"\x82SNAPPY\0", 16


def compressed(body: pa.Buffer, compression: str) -> pa.Buffer:
    """The records as a batch of that compression has them."""
    if compression == "none":
        return body
    if compression == "lz4":
        return pa.py_buffer(_lz4_frame(body))
    return pa.Codec(compression).compress(body)


def _lz4_frame(body: pa.Buffer) -> bytes:
    """An LZ4 frame of independent blocks; pyarrow's frames have linked ones, which Kafka refuses.

    Blocks have 64 KiB, 256 KiB, 1 MiB or 4 MiB (4 to 7 in the header); what does not get smaller
    stays as it is. The header's last byte is a checksum of the two before it.
    """
    size = body.size
    code = next((code for code in (4, 5, 6) if size <= 4 ** (code + 4)), 7)
    block_size, checksum = 4 ** (code + 4), b"\x82\xfb\x51\x73"[code - 4]
    parts = [LZ4_HEAD.pack(0x184D2204, 0x60, code << 4, checksum)]
    for begin in range(0, size, block_size):
        block = body.slice(begin, min(block_size, size - begin))
        packed = SMALL.compress(block)
        if packed.size < block.size:
            parts += [struct.pack("<I", packed.size), packed]
        else:
            parts += [struct.pack("<I", block.size | 0x80000000), block]
    return b"".join([*parts, bytes(4)])


def decompressed(body: memoryview, compression: str) -> bytes:
    """The records of a batch of that compression."""
    if compression == "snappy":
        return _snappy(bytes(body))
    data: bytes
    if compression == "lz4":
        data = lz4.frame.decompress(body)
    else:
        data = pa.input_stream(pa.py_buffer(body), compression=compression).read()
    return data


def _snappy(body: bytes) -> bytes:
    """Java's frames: a head of 16 bytes, then blocks with their sizes; others write one block."""
    if not body.startswith(SNAPPY_HEAD):
        return _snappy_block(body)
    blocks, at = [], SNAPPY_HEAD_SIZE
    while at < len(body):
        (size,) = struct.unpack_from(">i", body, at)
        at += 4 + size
        blocks.append(_snappy_block(body[at - size : at]))
    return b"".join(blocks)


def _snappy_block(block: bytes) -> bytes:
    """A block begins with its size when decompressed (a varint), which Arrow asks for."""
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    data: bytes = pa.Codec("snappy").decompress(block, size).to_pybytes()
    return data
