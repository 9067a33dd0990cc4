"""A checkpoint in a folder, on the disk: what a batch rests on survives a power cut.

Spark's files (its two logs, the state) are written by the JVM, which leaves them in the host's
memory. The driver has them written to the disk, each before what rests on it:

- the state after a batch, before Spark logs the batch as done (`state/`);
- a batch's offsets, and that the batch before is done, before the batch runs (all but `state/`).

The service's own files are synced when they are written: `held/` by the tasks, the rest by `files`.
With `service.sync = false`, only the query's id is synced, once: Kafka knows the batches of that
query, so a start that finds none of them in the checkpoint is refused.
Object stores and HDFS keep what they have acknowledged; there is nothing to do.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from streaming.disciplines.channels.shard_files import HELD
from streaming.durable import sync
from streaming.errors import StorageUnavailable

METADATA = "metadata"
"""Spark's file with the id of the query."""
STATE = "state"
OWN = {HELD, STATE}
THREADS = 8
"""A disk takes several requests at a time, and a file system's journal writes them together."""


class Syncing:
    """Syncs what is new in a checkpoint's folder since it last did; all of it at first.

    Called by the query's thread alone; ``_pool`` only syncs files that it names.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._known: dict[str, dict[str, int]] = {}
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="sync")

    def begin_again(self) -> None:
        """Take nothing for synced: a file system gives a removed file's inode to the next one."""
        self._known.clear()

    def query_id(self) -> None:
        """Sync the file with the query's id, and the way to it; once for each start."""
        if not self._known:
            self._known[str(self.folder)] = _entries(self.folder)
            self._write([str(self.folder / METADATA)], [self.folder, *self._way()])

    def logs(self) -> None:
        """Sync all but state and held records: the logs that say which batches there are.

        At first the state, too: a process that was killed may have left it.
        """
        is_first = not self._known
        self._sync(self._folders(self.folder, {HELD} if is_first else OWN))
        if is_first:
            self._write([], self._way())

    def state(self) -> None:
        """Sync the state that tasks wrote."""
        self._sync([self.folder, *self._folders(self.folder / STATE)])

    def _sync(self, folders: Iterable[Path]) -> None:
        """Sync new files of folders, then the folders: a name is not there before its content."""
        files: list[str] = []
        changed: list[Path] = []
        for folder in folders:
            found = _entries(folder)
            before = self._known.get(str(folder), {})
            new = [name for name, inode in found.items() if before.get(name) != inode]
            if new:
                files += new
                changed.append(folder)
            self._known[str(folder)] = found
        self._write(files, changed)

    def _write(self, files: Iterable[str], folders: Iterable[Path]) -> None:
        try:
            list(self._pool.map(_sync_there, files))
            list(self._pool.map(_sync_there, folders))
        except OSError as error:
            self._known.clear()
            raise StorageUnavailable(
                f"The checkpoint {self.folder} cannot be written to its disk: {error.strerror}.",
                "The batch was not finished, and will be repeated.",
                "See that the disk works, and has room.",
            ) from error

    def _way(self) -> list[Path]:
        """Return the folders above, which may be as new, but for those that others own."""
        return [each for each in self.folder.absolute().parents if os.access(each, os.R_OK)]

    def _folders(self, folder: Path, skipped: Collection[str] = ()) -> Iterable[Path]:
        yield folder
        try:
            inside = [each.name for each in os.scandir(folder) if each.is_dir()]
        except FileNotFoundError:
            return
        for name in inside:
            if name not in skipped:
                yield from self._folders(folder / name)


def _entries(folder: Path) -> dict[str, int]:
    """Names in a folder, folders too, with their inodes: a file that is replaced has another."""
    try:
        return {each.path: each.inode() for each in os.scandir(folder)}
    except FileNotFoundError:
        return {}


def _sync_there(path: str | Path) -> None:
    # Where Spark has renamed or removed it since, it is new under its other name the next time.
    with suppress(FileNotFoundError):
        sync(path)
