"""Snapshots of Spark's state in a folder: which of them a power cut left torn.

`state/<operator>/<partition>/<version>.zip` (with a name behind the version in format 12) lists
files in `SSTs` and `logs` beside it. Spark uploads snapshots by a thread of its own, between two
batches: until the next batch syncs the state, a power cut may take their content.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

LISTED = (("sstFiles", "SSTs", "dfsSstFileName"), ("logFiles", "logs", "dfsLogFileName"))
"""In a snapshot's metadata: lists of files, their folders, and their names there."""
CHECKSUM_HEAD, CHECKSUM_MARK, CHECKSUM = struct.Struct(">4sI"), b"crc\0", 4
"""Hadoop's checksum file begins with a mark and the bytes that one checksum is of."""
DAMAGE = (BadZipFile, KeyError, ValueError, EOFError, NotImplementedError, zlib.error)
FIRST_CHANGES = "1[._]*changelog"
VERSIONED = re.compile(r"(\d+)(_[^.]*)?\.(zip|changelog|delta|snapshot)")
"""Names of Spark's state stores: the state after batch N is version N + 1."""


def state_version(name: str) -> int | None:
    """Return the version that a file of the state belongs to; None where it is of no single one."""
    found = VERSIONED.fullmatch(name)
    return int(found[1]) if found else None


def torn(state: Path) -> Iterator[Path]:
    """Yield the snapshots below a folder that are not whole, and that can be done without.

    An older one is whole, or all changes from the first on are there: a power cut leaves no other.
    """
    for partition in sorted(state.glob("*/*")):
        is_whole = any(partition.glob(FIRST_CHANGES))
        for each in sorted(partition.glob("*.zip"), key=lambda each: state_version(each.name) or 0):
            if _is_whole(each):
                is_whole = True
            elif is_whole:
                yield each


def _is_whole(snapshot: Path) -> bool:
    """Whether it is; so is what cannot be read, or is gone meanwhile: who needs it says so."""
    try:
        with ZipFile(snapshot) as zipped:
            if zipped.testzip() is not None:
                return False
            _, _, metadata = zipped.read("metadata").partition(b"\n")
        own = snapshot, snapshot.stat().st_size
        return all(_has(*each) for each in [*_listed(json.loads(metadata), snapshot.parent), own])
    except DAMAGE:
        return False
    except OSError:
        return True


def _listed(metadata: Any, folder: Path) -> Iterator[tuple[Path, int]]:
    for key, below, name in LISTED:
        for each in metadata.get(key) or ():
            yield folder / below / each[name], int(each["sizeBytes"])


def _has(path: Path, size: int) -> bool:
    """Whether a file has its size, and its checksum file, if there is one, that of its own."""
    try:
        if path.stat().st_size != size:
            return False
        checksums = path.with_name(f".{path.name}.crc").read_bytes()
    except FileNotFoundError:
        return path.exists()
    if len(checksums) < CHECKSUM_HEAD.size:
        return False
    mark, each = CHECKSUM_HEAD.unpack_from(checksums)
    if mark != CHECKSUM_MARK or each == 0:
        return False
    return bool(len(checksums) == CHECKSUM_HEAD.size + CHECKSUM * -(-size // each))
