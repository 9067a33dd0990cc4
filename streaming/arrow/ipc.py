"""Tables as bytes: Arrow IPC streams, and bare bodies whose schema the reader knows."""

from __future__ import annotations

import binascii
import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TypeVar

import google_crc32c
import pyarrow as pa

from streaming.arrow.schemas import has_blocks, with_blocks
from streaming.errors import NOT_FINISHED, SequencerError

COMPRESSED_BYTES_MIN = 128 * 2**10
"""Smaller tables and bodies are not compressed: a table's two dozen buffers take 75 microseconds,
and as long again to read."""
PLAIN = pa.ipc.IpcWriteOptions(use_threads=False)
COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
COMPRESSED_ROW_MIN = 512
"""Rows of fewer bytes are not compressed. Spark copies a byte a dozen times and writes it to a file
once; lz4 takes less time than that unless rows are small: measured with JSON, values of 10 KB are
14 % faster with it, of 1 KB 27 %, of 100 bytes not."""
BODY_HEAD = struct.Struct("<II")
"""Checksum, and whether the rows have blocks."""

Blob = TypeVar("Blob", bytes, pa.Buffer)

SMALL_BYTES_MAX = 256 * 2**10
SMALL, LARGE = pa.Codec("lz4_raw"), pa.Codec("zstd", compression_level=1)


def to_ipc(table: pa.Table, *, as_it_is: bool = False) -> bytes:
    """Encode the table as one Arrow IPC stream, compressed if its rows are large.

    ``as_it_is``: the contents are compressed already.
    """
    data: bytes = _stream(table, PLAIN if as_it_is else _options(table)).to_pybytes()
    return data


def from_ipc(data: bytes | pa.Buffer) -> pa.Table:
    """Return the table of an Arrow IPC stream; its columns may point into ``data``."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def to_body(batch: pa.RecordBatch) -> bytes:
    """Encode the rows, compressed if they are large, behind a checksum (CRC-32C).

    The schema is left out, as it takes longer than a few rows. Rows with blocks
    (`streaming.wire.blocks`) are compressed already.
    """
    return b"".join(body_pieces(batch))


def body_pieces(batch: pa.RecordBatch, *, as_it_is: bool = False) -> tuple[bytes, pa.Buffer]:
    """Return the two parts that :func:`to_body` joins; ``as_it_is``: do not compress."""
    blocks = has_blocks(batch.schema)
    options = PLAIN if blocks or as_it_is else _options(batch)
    if options is PLAIN:
        body = batch.serialize()
    else:
        body = _stream(batch, options)[batch.schema.serialize().size :]
    return BODY_HEAD.pack(google_crc32c.value(body), blocks), body


def from_body(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return the inverse of :func:`to_body`; columns may point into ``data``.

    ``schema`` is always that of the rows without blocks. Raises SequencerError if the body is
    damaged. (Spark's own checksums of shuffled data are part of its compression, which costs more
    on one machine than it saves.)
    """
    blocks, body = checked(data)
    if blocks > 1:
        raise damaged()
    return pa.ipc.read_record_batch(body, with_blocks(schema) if blocks else schema)


def checked(data: bytes) -> tuple[int, pa.Buffer]:
    """Verify a body's checksum; return the head's other field, and the body."""
    body = pa.py_buffer(data)[BODY_HEAD.size :]
    checksum, kind = BODY_HEAD.unpack_from(data)
    if checksum != google_crc32c.value(body):
        raise damaged()
    return kind, body


def damaged() -> SequencerError:
    """Return the error for bytes that differ from what the previous stage sent."""
    return SequencerError(
        "Rows were damaged on their way from one stage of a batch to the next.",
        NOT_FINISHED,
        "If it happens again, have this machine's memory and disks checked.",
    )


def to_state(batch: pa.RecordBatch) -> bytes:
    """Encode a body for Spark's state, compressed: each MB there costs some 10 ms in a batch."""
    return squeezed(batch.serialize())


def from_state(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return the inverse of :func:`to_state`."""
    return pa.ipc.read_record_batch(unsqueezed(data), schema)


def squeezed(body: bytes | pa.Buffer) -> bytes:
    """Compress bytes, and prefix their length."""
    size = len(memoryview(body))
    packed: bytes = _codec(size).compress(body, asbytes=True)
    return size.to_bytes(8, "little") + packed


def unsqueezed(data: bytes) -> pa.Buffer:
    """Return the inverse of :func:`squeezed`."""
    size = int.from_bytes(data[:8], "little")
    return _codec(size).decompress(memoryview(data)[8:], size)


def join(parts: Sequence[bytes]) -> bytes:
    """Join blobs into one."""
    return struct.pack(f">{len(parts)}I", *map(len, parts)) + b"".join(parts)


def split(data: Blob, count: int) -> list[Blob]:
    """Return the inverse of :func:`join` of this many."""
    sizes = struct.unpack_from(f">{count}I", data)
    return [data[first:stop] for first, stop in pairwise(accumulate(sizes, initial=4 * count))]


def to_line(data: bytes) -> str:
    """Encode a state's bytes as ASCII text.

    Spark's JVM converts bytes in a state to text, one character for each, and Python converts it
    back: 25 to 50 ms for a MB in each batch. ASCII text is not converted.
    """
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def from_line(line: str) -> bytes:
    """Return the inverse of :func:`to_line`."""
    return binascii.a2b_base64(line)


def _stream(rows: pa.Table | pa.RecordBatch, options: pa.ipc.IpcWriteOptions) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write(rows)
    return sink.getvalue()


def _options(rows: pa.Table | pa.RecordBatch) -> pa.ipc.IpcWriteOptions:
    large = rows.nbytes >= max(COMPRESSED_BYTES_MIN, COMPRESSED_ROW_MIN * len(rows))
    return COMPRESSED if large else PLAIN


def _codec(size: int) -> pa.Codec:
    return SMALL if size <= SMALL_BYTES_MAX else LARGE
