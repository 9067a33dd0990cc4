"""Which process works on a checkpoint, if any does.

A folder has a lock, which goes with the process that holds it. Storage without locks has only what
the process wrote when it began, and removes when it stops in order.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from streaming.errors import StorageUnavailable

TRIES = 10
TRY_SECONDS = 0.05
"""A process that looks whether a lock is held takes it for a moment: a start waits for that."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that began to work on a checkpoint; ``since``: RFC 3339, UTC.

    ``service``: its `service.name`, "" where it did not say so.
    """

    pid: int
    host: str
    since: str
    service: str = ""

    def __str__(self) -> str:
        """Which process it is, for people."""
        return f"process {self.pid} on {self.host}"

    @classmethod
    def this_process(cls, service: str) -> Holder:
        """Return this process, as of now, at work for a service of this name."""
        since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return cls(os.getpid(), socket.gethostname(), since, service)


def lock(path: Path) -> IO[str] | None:
    """Lock a file until it is closed, or the process ends; None where another process has it.

    Raises StorageUnavailable.
    """
    try:
        file = path.open("a+")
    except OSError as error:
        raise StorageUnavailable(
            f"The checkpoint {path.parent} cannot be used: {path.name}: {error.strerror}.",
            "Nothing was changed.",
            "See that the folder and all that is in it belongs to this user; a backup that root "
            "made or put back does not.",
        ) from error
    for number in range(TRIES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if number < TRIES - 1:
                time.sleep(TRY_SECONDS)
        except OSError as error:
            file.close()
            raise StorageUnavailable(
                f"The checkpoint {path.parent} cannot be locked: {error.strerror}.",
                "Nothing was changed.",
                "Its file system must know locks (flock) that hold for all hosts that mount it.",
            ) from error
        else:
            return file
    file.close()
    return None


def is_locked(path: Path) -> bool | None:
    """Return whether a process holds a file's lock; None where that cannot be seen."""
    with suppress(OSError), path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
    return None
