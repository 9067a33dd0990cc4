"""Large rows that stay in files on their way from one stage of a batch to the next.

Spark copies a row some ten times on its way from one Python worker to another. On one machine it
gets a reference instead: which file, where in it, how long, and the checksum of what lies there
(Hohpe and Woolf, *Enterprise Integration Patterns*: claim check). What is left is of use for one
batch only: it is never synced, and removed when the batch is done, or has failed.
"""

from __future__ import annotations

import os
import shutil
import struct
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import google_crc32c
import pyarrow as pa

from streaming.arrow.ipc import BODY_HEAD, damaged
from streaming.errors import NOT_FINISHED, StorageUnavailable

Row: TypeAlias = "bytes | pa.Buffer"

REFERENCE = 3
"""In the place where a pack says whether it has blocks. Tables (IPC streams) have the length of
their schema there, a multiple of eight."""
LARGE_BYTES = 64 * 2**10
"""What has less goes through Spark, which takes less time for it than a file does."""
_LIES = struct.Struct("<QQI?")
"""Offset, length, checksum (CRC-32C), and whether it is the last reference to its file, whose name
is behind them."""


def left(rows: Sequence[Row], folder: str) -> list[Row]:
    """Return references to the rows, which are in a new file of the folder; small rows themselves.

    ``folder``: "" for none. Equal rows are written once. StorageUnavailable where that fails.
    """
    buffers = [pa.py_buffer(row) for row in rows]
    if not folder or sum(row.size for row in buffers) < LARGE_BYTES:
        return [*rows]
    path = Path(folder, uuid.uuid4().hex)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # systems remove what lies unused for days
        return _written(buffers, path)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise StorageUnavailable(
            f"Rows of a batch could not be written to {folder}: {error.strerror or error}.",
            NOT_FINISHED,
            "Make room there, or have temporary files elsewhere (TMPDIR); it is tried again.",
        ) from error


def left_of(batch: pa.RecordBatch, folder: str) -> pa.RecordBatch:
    """Return a batch whose column `rows` has what :func:`left` gives of it."""
    if not folder:
        return batch
    rows = left([each.as_buffer() for each in batch["rows"]], folder)
    at = batch.schema.get_field_index("rows")
    return batch.set_column(at, "rows", pa.array(rows, pa.binary()))


def found(row: Row, *, last: bool = False) -> Row:
    """Return the row, or what it refers to.

    ``last``: nobody asks again for this row of a file, nor for those given before it; with its last
    one the file is removed.

    SequencerError where it is damaged, StorageUnavailable where it is gone.
    """
    if len(row) < BODY_HEAD.size or BODY_HEAD.unpack_from(row)[1] != REFERENCE:
        return row
    payload = bytes(memoryview(row)[BODY_HEAD.size :])
    if BODY_HEAD.unpack_from(row)[0] != google_crc32c.value(payload):
        raise damaged()
    first, size, checksum, is_last = _LIES.unpack_from(payload)
    path = Path(os.fsdecode(payload[_LIES.size :]))
    try:
        with pa.memory_map(str(path)) as file:
            file.seek(first)
            lies = file.read_buffer(size)
            if last and is_last:
                path.unlink()
    except OSError as error:
        raise StorageUnavailable(
            f"Rows of a batch cannot be read again: {error.strerror or error}.",
            NOT_FINISHED,
            "See that nobody removes temporary files of a service that runs; it is tried again.",
        ) from error
    if lies.size != size or google_crc32c.value(lies) != checksum:
        raise damaged()
    return lies


def clear(folder: str) -> None:
    """Remove what was left; tasks of a batch that failed may leave more, until the next time."""
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def _written(rows: Sequence[pa.Buffer], path: Path) -> list[Row]:
    name, stop, references = os.fsencode(path), 0, []
    known: dict[tuple[int, int], tuple[pa.Buffer, int]] = {}
    with path.open("xb", buffering=0) as file:
        for number, row in enumerate(rows, 1):
            checksum = google_crc32c.value(row)
            other, first = known.get((row.size, checksum), (None, 0))
            if other is None or not other.equals(row):
                first, stop = stop, stop + row.size
                known[row.size, checksum] = row, first
                unwritten = memoryview(row)
                while unwritten:
                    unwritten = unwritten[file.write(unwritten) :]
            payload = _LIES.pack(first, row.size, checksum, number == len(rows)) + name
            references.append(BODY_HEAD.pack(google_crc32c.value(payload), REFERENCE) + payload)
    return references
