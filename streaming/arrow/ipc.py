"""Tables as bytes: Arrow IPC streams, and bare bodies whose schema the reader knows."""

from __future__ import annotations

import binascii
import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise

import pyarrow as pa

SMALL_BYTES_MAX = 256 * 2**10
SMALL, LARGE = pa.Codec("lz4_raw"), pa.Codec("zstd", compression_level=1)


def to_ipc(table: pa.Table) -> bytes:
    """The table as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_ipc(data: bytes | pa.Buffer) -> pa.Table:
    """The table of an Arrow IPC stream; its columns point into ``data``."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def to_body(batch: pa.RecordBatch) -> bytes:
    """The rows without their schema, which takes longer than the rows where these are few."""
    data: bytes = batch.serialize().to_pybytes()
    return data


def from_body(data: bytes | pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    """The inverse of :func:`to_body`; columns point into ``data``."""
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)


def to_state(batch: pa.RecordBatch) -> bytes:
    """A body to be kept in Spark's state, compressed: each MB there costs some 25 ms in a batch."""
    body = batch.serialize()
    packed: bytes = _codec(body.size).compress(body, asbytes=True)
    return int(body.size).to_bytes(8, "little") + packed


def from_state(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """The inverse of :func:`to_state`."""
    size = int.from_bytes(data[:8], "little")
    return from_body(_codec(size).decompress(memoryview(data)[8:], size), schema)


def join(parts: Sequence[bytes]) -> bytes:
    """Some blobs as one."""
    return struct.pack(f">{len(parts)}I", *map(len, parts)) + b"".join(parts)


def split(data: bytes, count: int) -> list[bytes]:
    """The inverse of :func:`join` of so many."""
    sizes = struct.unpack_from(f">{count}I", data)
    return [data[first:stop] for first, stop in pairwise(accumulate(sizes, initial=4 * count))]


def to_line(data: bytes) -> str:
    """Bytes for a state as text.

    Of bytes in a state Spark's JVM makes text for Python, a character of each, and Python bytes of
    that: 25 to 50 ms for a MB in each batch. ASCII text goes as it is.
    """
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def from_line(line: str) -> bytes:
    """The inverse of :func:`to_line`."""
    return binascii.a2b_base64(line)


def _codec(size: int) -> pa.Codec:
    return SMALL if size <= SMALL_BYTES_MAX else LARGE
