"""Snapshots of Spark's state in a folder: which of them a power cut left torn.

`state/<operator>/<partition>/<version>.zip` (with a name behind the version in format 12) lists
files in `SSTs` and `logs` beside it. Spark uploads snapshots by a thread of its own, between two
batches: until the next batch syncs the state, a power cut may take their content.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

LISTED = (("sstFiles", "SSTs", "dfsSstFileName"), ("logFiles", "logs", "dfsLogFileName"))
"""In a snapshot's metadata: lists of files, their folders, and their names there."""
CHECKSUM_HEAD, CHECKSUM, CHECKED = 8, 4, 512
"""Bytes of Hadoop's checksum file: its head, a checksum, and what one is of."""
DAMAGE = (BadZipFile, KeyError, ValueError, EOFError, NotImplementedError, zlib.error)


def torn(state: Path) -> Iterator[Path]:
    """Yield the snapshots below a folder that are not whole."""
    return (each for each in sorted(state.glob("*/*/*.zip")) if not _is_whole(each))


def _is_whole(snapshot: Path) -> bool:
    try:
        with ZipFile(snapshot) as zipped:
            if zipped.testzip() is not None:
                return False
            _, _, metadata = zipped.read("metadata").partition(b"\n")
        listed = [*_listed(json.loads(metadata), snapshot.parent)]
    except DAMAGE:
        return False
    return all(_has(path, size) for path, size in [*listed, (snapshot, snapshot.stat().st_size)])


def _listed(metadata: Any, folder: Path) -> Iterator[tuple[Path, int]]:
    for key, below, name in LISTED:
        for each in metadata.get(key) or ():
            yield folder / below / each[name], int(each["sizeBytes"])


def _has(path: Path, size: int) -> bool:
    """Whether a file has its size, and its checksum file, if there is one, that of its own."""
    try:
        if path.stat().st_size != size:
            return False
        checksums = path.with_name(f".{path.name}.crc").stat().st_size
    except FileNotFoundError:
        return path.exists()
    return checksums == CHECKSUM_HEAD + CHECKSUM * -(-size // CHECKED)
