"""Decompression of brokers' answers in bounded memory, whatever sizes the bytes claim.

Each codec trusts a size: LZ4 the content size in a frame's head, Snappy the number at a block's
begin, and all expand as far as the bytes say. So claimed sizes are compared with what the codec can
reach, and nothing grows beyond a limit.

What a broker accepts has to be readable, or a sender could stop those who read. Brokers use Java's
readers: they look neither at the size nor at the checksum of an LZ4 frame's content, and ignore
what follows a gzip stream, or is too short for another block of Snappy.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import lz4.frame
import pyarrow as pa

BODY_BYTES_MAX = 512 * 2**20
"""The most bytes of one batch's records. Clients compress 1 MiB at a time by default."""
PIECE_BYTES, LZ4_PIECE_BYTES = 256 * 2**10, 32 * 2**20
"""The size of a piece. Large, as python-lz4 copies the rest of a frame for each piece."""
ZSTD_HEAD = struct.Struct("<IBB")
"""Magic number, flags, window descriptor (without it the window is the whole frame)."""
ZSTD_SINGLE_SEGMENT, ZSTD_WINDOW_MAX = 0x20, 17
"""128 MiB, as an exponent above 10: the largest window that the decoder accepts."""
_damaged: set[str] = set()
"""Codecs for which this process has seen a damaged body."""
GZIP_WINDOW = 16 + zlib.MAX_WBITS
"""zlib's window bits for a stream with gzip's head and checksum."""
LZ4_RATIO_MAX, SNAPPY_RATIO_MAX = 255, 64
"""The largest ratio of decompressed to compressed bytes (Snappy: a copy of 3 gives 64)."""
LZ4_HEAD = struct.Struct("<IBBQ")
"""Magic number, flags, block size; the content's size where the flags say so."""
LZ4_HAS_SIZE, LZ4_HAS_CHECKSUM = 0x08, 0x04
LZ4_DESCRIPTOR = slice(4, 6)
SNAPPY_HEAD, SNAPPY_HEAD_SIZE, SNAPPY_SIZE_BYTES = b"\x82SNAPPY\0", 16, 4
SNAPPY_VARINT_BYTES_MAX = 5


def decompressed(
    body: memoryview, compression: str, bytes_max: int = BODY_BYTES_MAX, *, old: bool = False
) -> bytes:
    """Return a batch's records, decompressed.

    ``old``: messages of format 0, whose LZ4 frames have another checksum in their heads.
    Raises ValueError if the bytes are damaged, or would expand beyond ``bytes_max``.
    """
    try:
        if compression == "snappy":
            return b"".join(_limited(_snappy(bytes(body)), bytes_max))
        if compression == "lz4":
            return _lz4(_with_checksum(body) if old else body, bytes_max)
        if compression == "gzip":
            return b"".join(_limited(_gzip(body), bytes_max))
        return b"".join(_limited(_zstd(body, bytes_max), bytes_max))
    except (RuntimeError, OSError, EOFError, struct.error, zlib.error) as error:
        raise ValueError(str(error)) from error


def _limited(pieces: Iterator[bytes], bytes_max: int) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        _require(size, bytes_max)
        yield piece


def _require(size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise ValueError(f"it claims {size:,} bytes, and can have {bytes_max:,}")


def _gzip(body: memoryview) -> Iterator[bytes]:
    """Decompress members, one behind the other; behind the first, what is no member ends it.

    With Python's zlib: Arrow's decoder leaks 35 KB for each damaged body.
    """
    member, rest, at, may_end = zlib.decompressobj(GZIP_WINDOW), b"", 0, False
    while rest or at < len(body):
        if not rest:
            rest = bytes(body[at : at + PIECE_BYTES])
            at += len(rest)
        if member.eof:
            member, may_end = zlib.decompressobj(GZIP_WINDOW), True
        try:
            piece = member.decompress(rest, PIECE_BYTES)
        except zlib.error:
            if may_end:
                return
            raise
        may_end = may_end and not piece
        yield piece
        rest = member.unused_data or member.unconsumed_tail
    while not member.eof:
        piece = member.decompress(b"", PIECE_BYTES)
        if not piece:
            if may_end:
                return
            raise ValueError("the stream has no end")
        yield piece


def _zstd(body: memoryview, bytes_max: int) -> Iterator[bytes]:
    """Decompress frames, one behind the other.

    Arrow's stream leaks 6 KB for each damaged body. So once this process has seen one, the others
    are checked beforehand, which takes twice the time.
    """
    if "zstd" in _damaged:
        _require_zstd(body, bytes_max)
    try:
        stream = pa.input_stream(pa.py_buffer(body), compression="zstd")
        while piece := stream.read(PIECE_BYTES):
            yield piece
    except OSError:
        _damaged.add("zstd")
        raise


def _require_zstd(body: memoryview, bytes_max: int) -> None:
    """Raise OSError if bytes are damaged, with the decoder for a known size, which does not leak.

    Its errors about intact frames (another size, or no room for it) are ignored.
    """
    if len(body) > ZSTD_HEAD.size:
        _, flags, window = ZSTD_HEAD.unpack_from(body)
        if not flags & ZSTD_SINGLE_SEGMENT and window >> 3 > ZSTD_WINDOW_MAX:
            raise ValueError("its frame looks back too far")
    codec, size = pa.Codec("zstd"), 0
    while size < bytes_max:
        size = min(4 * max(size, len(body)), bytes_max)
        try:
            codec.decompress(body, size)
        except OSError as error:
            if "Corrupt ZSTD" in str(error):
                return
            if "too small" not in str(error):
                raise
        else:
            return
    raise ValueError(f"ZSTD: it claims more than {bytes_max:,} bytes, or is damaged")


def _lz4(body: memoryview, bytes_max: int) -> bytes:
    """Decompress a frame, whatever its head and its end say of its content."""
    try:
        return _lz4_frame(body, bytes_max)
    except (RuntimeError, ValueError):
        if len(body) < LZ4_HEAD.size or not body[4] & (LZ4_HAS_SIZE | LZ4_HAS_CHECKSUM):
            raise
        return _lz4_frame(_without_checks(body), bytes_max)


def _lz4_frame(body: memoryview, bytes_max: int) -> bytes:
    """Decompress a frame at once if it cannot be too large, else piece by piece."""
    if len(body) >= LZ4_HEAD.size:
        _, flags, _, size = LZ4_HEAD.unpack_from(body)
        if flags & LZ4_HAS_SIZE:
            _require(size, min(bytes_max, LZ4_RATIO_MAX * len(body)))
    data: bytes
    if len(body) * LZ4_RATIO_MAX <= bytes_max:
        data = lz4.frame.decompress(body)
        return data
    data = b"".join(_limited(_lz4_pieces(body), bytes_max))
    return data


def _lz4_pieces(body: memoryview) -> Iterator[bytes]:
    frame = lz4.frame.LZ4FrameDecompressor()
    piece = frame.decompress(body, LZ4_PIECE_BYTES)
    while piece:
        yield piece
        piece = b"" if frame.eof else frame.decompress(b"", LZ4_PIECE_BYTES)
    if not frame.eof:
        raise ValueError("the frame has no end")


def _without_checks(body: memoryview) -> memoryview:
    """Return an LZ4 frame whose head names neither the size nor a checksum of the content."""
    flags, block = body[LZ4_DESCRIPTOR]
    behind = LZ4_DESCRIPTOR.stop + 8 * bool(flags & LZ4_HAS_SIZE)
    plain = bytes([flags & ~(LZ4_HAS_SIZE | LZ4_HAS_CHECKSUM), block])
    frame = b"".join([body[: LZ4_DESCRIPTOR.start], plain, body[behind:]])
    return _with_checksum(memoryview(frame))


def _with_checksum(body: memoryview) -> memoryview:
    """Give an LZ4 frame's head the checksum that the format requires.

    Kafka's clients before 0.10 included the magic number; the byte is found by trying all 256.
    """
    frame = bytearray(body)
    has_size = bool(frame[LZ4_DESCRIPTOR][0] & LZ4_HAS_SIZE)
    at = LZ4_DESCRIPTOR.stop + 8 * has_size
    for frame[at] in range(256):
        try:
            lz4.frame.get_frame_info(bytes(frame[: at + 1]))
        except RuntimeError:
            continue
        return memoryview(frame)
    raise ValueError("the frame's head is not valid")


def _snappy(body: bytes) -> Iterator[bytes]:
    """Decompress Java's frames (a head of 16 bytes, then sized blocks), or others' single block."""
    if not body.startswith(SNAPPY_HEAD):
        yield _snappy_block(body)
        return
    at = 0
    while at + SNAPPY_SIZE_BYTES <= len(body):
        if body.startswith(SNAPPY_HEAD, at):  # also of one frame behind another
            at += SNAPPY_HEAD_SIZE
            continue
        (size,) = struct.unpack_from(">i", body, at)
        at += SNAPPY_SIZE_BYTES + size
        if size < 0 or at > len(body):
            raise ValueError(f"a block of {size:,} bytes")
        yield _snappy_block(body[at - size : at])


def _snappy_block(block: bytes) -> bytes:
    """Decompress a block; it begins with its decompressed size (a varint), which Arrow needs."""
    size = shift = 0
    for byte in block[:SNAPPY_VARINT_BYTES_MAX]:
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    _require(size, SNAPPY_RATIO_MAX * len(block))
    data: bytes = pa.Codec("snappy").decompress(block, size).to_pybytes()
    return data
