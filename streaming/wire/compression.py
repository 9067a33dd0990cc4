"""Compression as Kafka's record batches have it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import lz4.frame
import pyarrow as pa

from streaming.arrow.columns import Int64s
from streaming.arrow.ipc import SMALL
from streaming.arrow.pieces import of_lengths

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
"""Compressions by their numbers in a batch's attributes."""

LZ4_HEAD, BLOCK_HEAD = struct.Struct("<IBBB"), struct.Struct("<I")
BLOCK_BYTES_MAX = 4 * 2**20
STORED = 0x80000000
"""The bit in a block's size that says that the block is not compressed."""


def compressed(body: pa.Buffer, compression: str) -> pa.Buffer:
    """Return the records in the form that a batch of this compression contains."""
    if compression == "none":
        return body
    if compression == "lz4":
        return pa.py_buffer(lz4_frame(lz4_blocks(body), body.size))
    return pa.Codec(compression).compress(body)


def lz4_frame(blocks: Sequence[bytes | pa.Buffer], size: int) -> bytes:
    """Return an LZ4 frame of independent blocks; ``size`` is that of all, decompressed.

    Its header has the largest size of a block: 64 KiB, 256 KiB, 1 MiB or 4 MiB (4 to 7). The
    header's last byte is a checksum of the two before it.
    """
    code = _block_code(size)
    head = LZ4_HEAD.pack(0x184D2204, 0x60, code << 4, b"\x82\xfb\x51\x73"[code - 4])
    return b"".join([head, *blocks, bytes(4)])


def lz4_blocks(body: pa.Buffer) -> list[bytes | pa.Buffer]:
    """Return the bytes as blocks, each behind its size; a block that would not shrink is stored."""
    size = body.size
    block_size = 4 ** (_block_code(size) + 4)
    parts: list[bytes | pa.Buffer] = []
    for begin in range(0, size, block_size):
        block = body.slice(begin, min(block_size, size - begin))
        packed = SMALL.compress(block)
        if packed.size < block.size:
            parts += [BLOCK_HEAD.pack(packed.size), packed]
        else:
            parts += [BLOCK_HEAD.pack(block.size | STORED), block]
    return parts


def stored_heads(sizes: Int64s) -> pa.Array:
    """Return the size fields of stored (not compressed) blocks; empty where a size is 0."""
    there = sizes > 0
    return of_lengths(there * 4, pa.py_buffer((sizes[there] | STORED).astype("<u4").tobytes()))


def of_lz4_blocks(blocks: pa.Buffer, size: int) -> bytes:
    """Return the bytes (``size`` of them) that :func:`lz4_blocks` made into these blocks."""
    return lz4.frame.decompress(lz4_frame([blocks], size)) if size else b""


def _block_code(size: int) -> int:
    return next((code for code in (4, 5, 6) if size <= 4 ** (code + 4)), 7)
