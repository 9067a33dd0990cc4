"""A folder for what is of use only while a service runs: sockets, Spark's temporary files.

Who ends in order removes it. Who was killed cannot: the next start on the same machine does, so
that a service that is killed again and again does not fill the disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "sequencer-run-"
LOCK = "lock"
SHORT_MAX = 40
"""Spark puts a socket there for each worker, and a socket's whole name has 107 characters."""

LARGE_ROWS = "spark.sequencer.largeRows"
"""Where large rows stay (`streaming.arrow.large_rows`), as a setting of the session's."""
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_BYTES, REFERENCES_BYTES = str(4 * 2**20), "512"
"""Arrow's buffers grow by doubling; up to 16 MiB its allocator keeps them, larger ones are taken
from the system anew for each batch. Rows that are references are small, and what they refer to is
not: the sink gets each few."""


class Scratch:
    """Such a folder; its lock is held until this process has ended, and all that share ``lock``.

    ``base``: where it lies; without, where the system has temporary files.
    """

    def __init__(self, base: Path | None = None) -> None:
        given, base = base, base or _base()
        _sweep(base)
        self._made = tempfile.TemporaryDirectory(
            prefix=PREFIX, dir=base, ignore_cleanup_errors=True
        )
        self.folder = Path(self._made.name)
        unlocked = self.folder / f"{LOCK}.new"
        self._lock = unlocked.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unlocked.rename(self.folder / LOCK)  # held before anybody can find it
        held = os.open(self.folder, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_EX)  # systemd leaves such a folder alone (tmpfiles.d)
        self._end = ExitStack()
        self._end.callback(self._lock.close)
        self._end.callback(os.close, held)
        self._end.callback(self._made.cleanup)
        wanted = Path(tempfile.gettempdir())
        self._elsewhere = None if base in {wanted, given} else Scratch(wanted)
        if self._elsewhere is not None:
            self._end.callback(self._elsewhere.close)

    @property
    def lock(self) -> int:
        """A file that processes inherit whose files are here."""
        return self._lock.fileno()

    @property
    def java_option(self) -> str:
        """What has a JVM put its files there, Spark's too, quoted as in its settings."""
        return f'"-Djava.io.tmpdir={self.folder}"'

    @property
    def for_large_rows(self) -> dict[str, str]:
        """What has a session keep them where temporary files are wanted; see :func:`large_rows`."""
        folder = (self._elsewhere or self).folder / "rows"
        return {LARGE_ROWS: str(folder)}

    def close(self) -> None:
        """Remove it, once."""
        self._end.close()


def large_rows(session: SparkSession, pipeline: str, *, sees_rows: bool) -> str:
    """Return the folder for a pipeline's large rows; "" where they pass Spark.

    ``sees_rows``: whether Spark has work with each of its records. The query that is started next
    is made for what it gets.
    """
    folder = "" if sees_rows else session.conf.get(LARGE_ROWS, "")
    session.conf.set(BATCH_BYTES, REFERENCES_BYTES if folder else ROWS_BYTES)
    return f"{folder}/{pipeline}" if folder else ""


def _base() -> Path:
    base = Path(tempfile.gettempdir())
    usable = len(str(base)) <= SHORT_MAX and not re.search(r'["\\]', str(base))
    return base if usable else Path("/tmp")  # noqa: S108  (the folder made there is ours alone)


def _sweep(base: Path) -> None:
    """Remove what services of ours left there that run no more."""
    for abandoned in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = abandoned.lstat()
            if status.st_uid != os.getuid():
                continue
            with (abandoned / LOCK).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(abandoned, ignore_errors=True)
