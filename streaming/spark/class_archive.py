"""The archive of Spark's classes: parsed and verified once, mapped by every later start of the JVM.

Java's class-data sharing (JEP 350): with `-XX:ArchiveClassesAtExit` a JVM writes its loaded classes
when it ends, with `-XX:SharedArchiveFile` another one maps them. The archive lies in the folder of
the user's cache that has the jars; its name has its length and a digest of the Java and the jars. A
JVM ignores an archive of other jars silently; with a truncated one it would crash.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from streaming.errors import ConfigError
from streaming.kafka.jars import cache_root

QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""Keeps the JVM's remarks about an archive off standard output, which is for data."""
ARCHIVES_MAX = 5
"""The most archives in a user's cache, some 190 MB each: one for every Java and environment."""
HOUR_SECONDS = 3_600
OWN_OPTIONS = ("SharedArchiveFile", "ArchiveClassesAtExit", "-Xshare")
RECORDING = "SEQUENCER_RECORD_CLASSES"
"""An environment variable: "no" keeps the JVM from writing an archive, which takes some seconds at
its end."""


class ClassArchive:
    """The archive of one Java and one class path; written under another name, then renamed."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self.path = next(filter(_whole, folder.glob(f"{name}-*.jsa")), None)
        self.new = folder / f"{name}.{os.getpid()}-new"
        self.worth_keeping = False
        """Whether the JVM has run a batch, and so has loaded the classes that later starts need."""

    @property
    def recording(self) -> bool:
        """Return whether there is no archive yet, and the JVM is to write it."""
        return self.path is None

    def options(self) -> str:
        """Return the options for the JVM, quoted as in `spark.driver.extraJavaOptions`."""
        name, file = ("ArchiveClassesAtExit", self.new)
        if self.path is not None:
            name, file = ("SharedArchiveFile", self.path)
            with contextlib.suppress(OSError):  # another user's, then
                os.utime(file)
        return f'"-XX:{name}={file}" {QUIET}'

    def close(self, *, whole: bool) -> None:
        """Keep the archive if the ended JVM ran a batch and ended by itself (``whole``)."""
        with contextlib.suppress(OSError):
            if whole and self.recording and self.worth_keeping:
                size = self.new.stat().st_size
                with self.new.open("rb") as file:
                    os.fsync(file.fileno())
                self.path = self.new.replace(self._folder / f"{self._name}-{size}.jsa")
                self._clean()
        self.new.unlink(missing_ok=True)

    def _clean(self) -> None:
        """Remove other archives for these jars, and those beyond the ones that were used last."""
        for twin in self._folder.glob(f"{self._name}-*.jsa"):
            if twin != self.path:
                twin.unlink(missing_ok=True)
        for old in sorted(self._folder.glob("classes-*.jsa"), key=_age)[ARCHIVES_MAX:]:
            old.unlink(missing_ok=True)

    def remove_orphans(self) -> None:
        """Remove new archives that JVMs wrote whose drivers had been killed."""
        with contextlib.suppress(OSError):
            for orphan in self._folder.glob("classes-*-new"):
                if _age(orphan) > HOUR_SECONDS:
                    orphan.unlink(missing_ok=True)


def class_archive(jars: Iterable[Path], own_options: str) -> ClassArchive | None:
    """Return the archive for the Java that would be started; None if there can be none.

    Reasons: no folder to write to (and no archive in it), a Java without a JDK's layout, the user's
    own options about archives, or no archive yet and RECORDING forbids one.
    """
    command = shutil.which(Path(os.environ.get("JAVA_HOME", ""), "bin", "java")) or (
        shutil.which("java") if "JAVA_HOME" not in os.environ else None
    )
    if command is None or any(name in own_options for name in OWN_OPTIONS):
        return None
    home = Path(command).resolve().parents[1]
    try:
        folder = cache_root()
        parts = [_mark(part) for part in (home / "lib" / "modules", *jars)]
    except (ConfigError, OSError):
        return None
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    archive = ClassArchive(folder, f"classes-{name}")
    archive.remove_orphans()
    # Java takes the part behind a colon for a second archive.
    may_record = os.environ.get(RECORDING) != "no" and os.access(folder, os.W_OK)
    possible = not archive.recording or may_record
    return archive if possible and ":" not in str(folder) else None


def _whole(path: Path) -> bool:
    return path.stem.rpartition("-")[2] == str(path.stat().st_size)


def _age(path: Path) -> float:
    """Return the seconds since a start last used or wrote it; infinity if it is gone."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return math.inf


def _mark(file: Path) -> str:
    stat = file.stat()
    return f"{file} {stat.st_size} {int(stat.st_mtime)}"  # an image keeps whole seconds
