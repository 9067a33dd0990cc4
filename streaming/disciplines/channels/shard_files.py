"""Large parts of a shard in files beside Spark's state: segments of held records, and its tables.

Spark passes a shard its whole state in every batch, and writes it whole: pickled, as text of the
JVM's, and back. So large parts become files in the checkpoint's folder, and the state has their
names: a number that the shard counts up, and a checksum. A repeated batch writes the same file
again, or another one if the result differs. Files are mapped into memory; of a segment only the
rows that leave are read.

A file is synced to disk before the state that names it is written, and never changed. It is removed
in the batch after the first one that no longer names it: that one is done then, and no repeated
batch needs the file. Files of a killed process, which no state names, are recognised by their
numbers: a state never uses a number below its count again.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import google_crc32c
import pyarrow as pa

from streaming.disciplines.plan import Plan
from streaming.durable import sync
from streaming.errors import StorageUnavailable

HELD = "held"
FILE_BYTES_MIN = 64 * 2**10
"""Parts of at least this size become files. In Spark's state a MB of compressed text takes 30 ms of
a core in every batch; to write it plainly takes 0.3, and a file as such 0.05."""
NUMBERED = re.compile(r"([0-9a-f]+)-[0-9a-f]{8}(\.[0-9a-f]{32})?")
"""The form of a file's name: its number, its checksum, and a suffix while it is incomplete."""
_swept: set[Path] = set()
CHECKED_MAX = 10_000
_checked: set[Path] = set()
"""Files whose checksum this process has verified."""


@dataclass(frozen=True, slots=True)
class ShardFiles:
    """The files of one shard. ``synced``: whether they are on the disk before they are named."""

    folder: Path
    synced: bool = False

    @classmethod
    def of(cls, plan: Plan, key: int) -> ShardFiles | None:
        """Return the files of a state key; None if the plan has no folder for them."""
        return cls(Path(plan.folder, HELD, str(key)), plan.sync) if plan.folder else None

    @staticmethod
    def wants(size: int) -> bool:
        """Return whether this many bytes become a file."""
        return size >= FILE_BYTES_MIN

    def put(self, body: pa.Buffer, number: int) -> str:
        """Write bytes to a file, whose number no other of this shard has; return its name.

        Raises StorageUnavailable if they cannot be written.
        """
        name = f"{number:x}-{_checksum(body)}"
        path = self.folder / name
        new = path.with_suffix(f".{uuid.uuid4().hex}")
        try:
            self._make_folder()
            with new.open("xb") as file:
                file.write(body)
            if self.synced:
                sync(new)
            new.replace(path)
            if self.synced:
                sync(self.folder)
        except OSError as error:
            with suppress(OSError):
                new.unlink()
            raise StorageUnavailable(
                f"A shard's state cannot be written to {self.folder}: {error.strerror}.",
                "The batch was not finished, and will be repeated.",
                "See that the checkpoint's folder can be written to, and that its disk has room.",
            ) from error
        _note(path)
        return name

    def get(self, name: str) -> pa.Buffer:
        """Return the bytes, mapped into memory; StorageUnavailable if they are damaged."""
        path = self.folder / name
        try:
            with pa.memory_map(str(path)) as file:
                body = file.read_buffer()
        except OSError as error:
            raise self._damaged(name, os.strerror(error.errno) if error.errno else error) from error
        if path not in _checked:
            if _checksum(body) != name.rpartition("-")[2]:
                raise self._damaged(name, "it is not what was written")
            _note(path)
        return body

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, if they still exist."""
        for name in names:
            path = self.folder / name
            path.unlink(missing_ok=True)
            _checked.discard(path)

    def sweep(self, known: Collection[str], made: int) -> None:
        """Remove files with numbers below ``made`` that the state does not name; once per process.

        Those from ``made`` on may belong to another attempt at the batch.
        """
        if self.folder in _swept:
            return
        _swept.add(self.folder)
        for path in self.folder.glob("*"):
            numbered = NUMBERED.fullmatch(path.name)
            if numbered and path.name not in known and int(numbered[1], 16) < made:
                path.unlink(missing_ok=True)  # another process does the same

    def _make_folder(self) -> None:
        if self.folder.is_dir():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.synced:
            for folder in (self.folder.parent, self.folder.parent.parent):
                sync(folder)

    def _damaged(self, name: str, why: object) -> StorageUnavailable:
        return StorageUnavailable(
            f"A shard's state cannot be read from {self.folder / name}: {why}.",
            "The batch was not finished, and will be repeated.",
            "Restore the file from a backup of the checkpoint, or start with a new checkpoint "
            "folder (docs/backup.md).",
        )


def _note(path: Path) -> None:
    if len(_checked) >= CHECKED_MAX:
        _checked.clear()
    _checked.add(path)


def _checksum(body: pa.Buffer) -> str:
    """Return the CRC-32C."""
    return f"{google_crc32c.value(body):08x}"
