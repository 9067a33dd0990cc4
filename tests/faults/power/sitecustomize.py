"""What a disk would have after a power cut: every sync of this process is recorded.

On the path of Python it is imported as each process starts. Where POWER_CUT names a folder, that
gets what is synced: a file's content, or a folder's names, under the inode's number and generation
(a number is given to another file when the first is gone).
`tests.faults.power_cut` puts together from it what is left.
"""

import fcntl
import json
import os
import stat
import uuid
from contextlib import suppress
from pathlib import Path

RECORD = os.environ.get("POWER_CUT", "")
GENERATION = 0x80087601
"""FS_IOC_GETVERSION; a file system without it gives no number twice."""
sync = os.fsync


def inode(name, folder=None):
    """The number and generation of a file's inode, by its name (in an open ``folder``).

    None where it is gone, or nothing to read.
    """
    with suppress(OSError):
        descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder)
        try:
            return inode_of(descriptor)
        finally:
            os.close(descriptor)
    return None


def inode_of(descriptor):
    """The same of an open file."""
    generation = bytearray(8)
    with suppress(OSError):
        fcntl.ioctl(descriptor, GENERATION, generation)
    return f"{os.fstat(descriptor).st_ino}-{generation.hex()}"


def recorded(descriptor):
    """Note what is synced, and sync it."""
    sync(descriptor)
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        names = {name: inode(name, descriptor) for name in os.listdir(descriptor)}  # noqa: PTH208  (a descriptor)
        content = json.dumps(names).encode()
    else:
        content = Path(f"/proc/self/fd/{descriptor}").read_bytes()
    new = Path(RECORD, uuid.uuid4().hex)
    new.write_bytes(content)
    new.rename(Path(RECORD, inode_of(descriptor)))


if RECORD:
    os.fsync = recorded
