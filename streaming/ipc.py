"""Tables as bytes: Arrow IPC streams."""

from __future__ import annotations

import pyarrow as pa


def to_ipc(table: pa.Table) -> bytes:
    """The table as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def from_ipc(data: bytes) -> pa.Table:
    """The table of an Arrow IPC stream; its columns point into ``data``."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
