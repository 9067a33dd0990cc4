"""A folder for sockets and Spark's temporary files while a service runs.

A service that ends in order removes it. After a kill the next start on the same machine removes it,
so that repeated kills do not fill the disk.
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

from streaming.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREFIX = "sequencer-run-"
LOCK = "lock"
SHORT_MAX = 40
"""Spark puts a socket there for each worker, and a socket's path has at most 107 characters."""

LARGE_ROWS = "spark.sequencer.largeRows"
"""The session's setting for the folder of large rows (`streaming.arrow.large_rows`)."""
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_BYTES, REFERENCES_BYTES = str(4 * 2**20), "512"
"""Arrow's buffers grow by doubling; its allocator keeps those up to 16 MiB, larger ones are taken
from the system anew for each batch. References are small, but the rows behind them are not: so the
sink gets few at a time."""


class Scratch:
    """A temporary folder, locked until this process and all that inherit ``lock`` have ended.

    ``base``: its parent; by default the system's folder for temporary files.
    """

    def __init__(self, base: Path | None = None) -> None:
        given, base = base, base or _base()
        _sweep(base)
        try:
            self._made = tempfile.TemporaryDirectory(
                prefix=PREFIX, dir=base, ignore_cleanup_errors=True
            )
        except OSError as error:
            raise ConfigError(
                f"Temporary files cannot be written to {base}: {error.strerror}.",
                "Nothing was started.",
                "Set TMPDIR to a folder that this user can write to, whose path has at most "
                f"{SHORT_MAX} characters and no quotation marks.",
            ) from error
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
        """Return the file to be inherited by processes that use the folder."""
        return self._lock.fileno()

    @property
    def java_option(self) -> str:
        """Return the option that makes a JVM put temporary files here, quoted as in settings."""
        return f'"-Djava.io.tmpdir={self.folder}"'

    @property
    def for_large_rows(self) -> dict[str, str]:
        """Return the settings that keep large rows here; see :func:`large_rows`."""
        folder = (self._elsewhere or self).folder / "rows"
        return {LARGE_ROWS: str(folder)}

    def close(self) -> None:
        """Remove the folder; a second call does nothing."""
        self._end.close()


def large_rows(session: SparkSession, pipeline: str, *, sees_rows: bool) -> str:
    """Return the folder for a pipeline's large rows; "" if they go through Spark.

    ``sees_rows``: whether Spark processes each of its records. Also sets the size of record batches
    for the query that is started next.
    """
    folder = "" if sees_rows else session.conf.get(LARGE_ROWS, "")
    session.conf.set(BATCH_BYTES, REFERENCES_BYTES if folder else ROWS_BYTES)
    return f"{folder}/{pipeline}" if folder else ""


def _base() -> Path:
    base = Path(tempfile.gettempdir())
    usable = len(str(base)) <= SHORT_MAX and not re.search(r'["\\]', str(base))
    return base if usable else Path("/tmp")  # noqa: S108  (the folder made there is ours alone)


def _sweep(base: Path) -> None:
    """Remove the folders of our services that have ended."""
    for abandoned in base.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = abandoned.lstat()
            if status.st_uid != os.getuid():
                continue
            with (abandoned / LOCK).open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(abandoned, ignore_errors=True)
