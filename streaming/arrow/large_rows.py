"""Files for large rows between the stages of a batch.

Spark copies a row some ten times on its way from one Python worker to another. On one machine it
gets a reference instead: file, offset, length and checksum (Hohpe and Woolf, *Enterprise
Integration Patterns*: claim check). The files serve one batch only: they are never synced, and are
removed when the batch is done, or has failed.
"""

from __future__ import annotations

import os
import shutil
import struct
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import TypeAlias

import google_crc32c
import pyarrow as pa

from streaming.arrow.ipc import BODY_HEAD, damaged
from streaming.errors import NOT_FINISHED, StorageUnavailable

Bytes: TypeAlias = "bytes | pa.Buffer"
Pieces: TypeAlias = Sequence[Bytes]
"""A row, in pieces that follow each other."""

REFERENCE = 3
"""Marks a reference, in the byte where a pack says whether it has blocks. Tables (IPC streams) have
the length of their schema there, a multiple of eight."""
LARGE_BYTES = 64 * 2**10
"""If the rows of a table have fewer bytes together, they go through Spark, which is faster than a
file for them."""
_LIES = struct.Struct("<QQI?")
"""Offset, length, checksum (CRC-32C), and whether it is the last reference to its file, whose name
follows."""


def set_aside(rows: Sequence[Pieces], folder: str) -> list[bytes] | None:
    """Write the rows to a new file and return references; None if they are to go through Spark.

    ``folder``: for the file; "" for none. It and its parent are created if they are missing, as
    systems remove folders that were unused for days. A row that is given twice is written once.
    Raises StorageUnavailable if that fails.
    """
    if not folder or sum(len(piece) for row in rows for piece in row) < LARGE_BYTES:
        return None
    path = Path(folder, uuid.uuid4().hex)
    try:
        path.parent.parent.mkdir(exist_ok=True)
        path.parent.mkdir(exist_ok=True)
        return _written(rows, path)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise StorageUnavailable(
            f"Rows of a batch could not be written to {folder}: {error.strerror or error}.",
            NOT_FINISHED,
            "Make room there, or have temporary files elsewhere (TMPDIR); it is tried again.",
        ) from error


def fetched_back(row: Bytes, *, last_use: bool = False) -> Bytes:
    """Return the row, or the one that it refers to.

    ``last_use``: this row of a file, and those before it, are not read again; the file is removed
    with its last one. While a returned row is in use, all of its file stays on the disk.

    Raises SequencerError if it is damaged, StorageUnavailable if it is gone.
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
    except OSError as error:
        raise StorageUnavailable(
            f"Rows of a batch cannot be read again: {error.strerror or error}.",
            NOT_FINISHED,
            "See that nobody removes temporary files of a service that runs; it is tried again.",
        ) from error
    if lies.size != size or google_crc32c.value(lies) != checksum:
        raise damaged()
    if last_use and is_last:
        with suppress(OSError):
            path.unlink()
    return lies


def clear(folder: str) -> None:
    """Remove the files; tasks of a failed batch may leave more, which the next call removes."""
    if folder:
        shutil.rmtree(folder, ignore_errors=True)


def _written(rows: Sequence[Pieces], path: Path) -> list[bytes]:
    name, stop, references = os.fsencode(path), 0, []
    known: dict[int, tuple[int, int, int]] = {}
    with path.open("xb", buffering=0) as file:
        for number, row in enumerate(rows, 1):
            if id(row) not in known:
                size = sum(map(len, row))
                known[id(row)] = stop, size, reduce(google_crc32c.extend, row, 0)
                stop += size
                for piece in row:
                    unwritten = memoryview(piece)
                    while unwritten:
                        unwritten = unwritten[file.write(unwritten) :]
            payload = _LIES.pack(*known[id(row)], number == len(rows)) + name
            references.append(BODY_HEAD.pack(google_crc32c.value(payload), REFERENCE) + payload)
    return references
