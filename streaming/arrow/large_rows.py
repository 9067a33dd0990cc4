"""Large rows that stay in files on their way from one stage of a batch to the next.

Spark copies a row some ten times on its way from one Python worker to another. On one machine it
gets a reference instead: which file, where in it, how long, and the checksum of what lies there
(Hohpe and Woolf, *Enterprise Integration Patterns*: claim check). What is set aside is of use for
one batch only: it is never synced, and removed when the batch is done, or has failed.
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
"""In the place where a pack says whether it has blocks. Tables (IPC streams) have the length of
their schema there, a multiple of eight."""
LARGE_BYTES = 64 * 2**10
"""Where the rows of a table have less together, they go through Spark, which takes less time for
them than a file does."""
_LIES = struct.Struct("<QQI?")
"""Offset, length, checksum (CRC-32C), and whether it is the last reference to its file, whose name
is behind them."""


def set_aside(rows: Sequence[Pieces], folder: str) -> list[bytes] | None:
    """Return references to the rows, which are in a new file; None where they are to go themselves.

    ``folder``: where files are, "" for nowhere; it and the folder around it are made where they are
    missing, as systems remove what lies unused for days. The same row, given again, is written
    once. StorageUnavailable where that fails.
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
    """Return the row, or what it refers to.

    ``last_use``: nobody asks again for this row of a file, nor for those given before it; with its
    last one the file is removed. Who keeps what is returned keeps all of the file on the disk.

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
    """Remove what was set aside; tasks of a batch that failed may leave more, till the next one."""
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
