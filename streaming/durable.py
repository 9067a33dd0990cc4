"""Files that a power cut leaves: what is written is on the disk before anything goes on.

A file that was written, even renamed, is in the host's memory for seconds; so are the names in its
folder. `sync` waits for either.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path


def sync(path: str | Path) -> None:
    """Wait until the disk has a file's content, or a folder's names. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that has no such thing for folders
            raise
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """Wait until the disk has all that is in a folder, and the names in it. Raises OSError."""
    for where, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync(Path(where, name))
        sync(where)
