"""Large parts of a shard in files beside Spark's state: segments of held records, and its tables.

Spark hands a shard its whole state in every batch, and writes it whole: pickled, as text of the
JVM's, and back. So what is large is not in it: it becomes a file in the checkpoint's folder, and
the state has its name: a number that the shard counts on, and a checksum. A repeated batch writes
the same file once more, or, where the result differs, another one. Files are mapped into
memory; of a segment only what leaves is read.

A file is written, and on the disk, before the state that names it, and never changed. It is removed
in the batch after the one that named it no more: then that one is done for ever, and no repeated
batch asks for it. What a killed process left, which no state names, is known by its number: a state
never names a number again that it has counted past.
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
"""In Spark's state a MB of text, compressed before, takes 30 ms of a core in every batch; to write
it as it is takes 0.3, and a file as such 0.05."""
NUMBERED = re.compile(r"([0-9a-f]+)-[0-9a-f]{8}(\.[0-9a-f]{32})?")
"""A file's number, its checksum, and what a file that is not whole yet has besides."""
_swept: set[Path] = set()
CHECKED_MAX = 10_000
_checked: set[Path] = set()
"""Files that this process found to be what their names say."""


@dataclass(frozen=True, slots=True)
class ShardFiles:
    """The files of one shard. ``synced``: whether they are on the disk before they are named."""

    folder: Path
    synced: bool = False

    @classmethod
    def of(cls, plan: Plan, key: int) -> ShardFiles | None:
        """Those of a state key; None where the plan has no folder for them."""
        return cls(Path(plan.folder, HELD, str(key)), plan.sync) if plan.folder else None

    @staticmethod
    def wants(size: int) -> bool:
        """Whether this many bytes become a file."""
        return size >= FILE_BYTES_MIN

    def put(self, body: pa.Buffer, number: int) -> str:
        """Write bytes; their name, with a number that is no other's of this shard.

        StorageUnavailable where they cannot be written.
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
        """The bytes, mapped into memory. StorageUnavailable where they are not what they were."""
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
        """Remove files, those that are still there."""
        for name in names:
            path = self.folder / name
            path.unlink(missing_ok=True)
            _checked.discard(path)

    def sweep(self, known: Collection[str], made: int) -> None:
        """Remove files that the state does not name, of numbers below ``made``; once in a process.

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
            "Restore the file from a backup of the checkpoint.",
        )


def _note(path: Path) -> None:
    if len(_checked) >= CHECKED_MAX:
        _checked.clear()
    _checked.add(path)


def _checksum(body: pa.Buffer) -> str:
    """Return the CRC-32C."""
    return f"{google_crc32c.value(body):08x}"
