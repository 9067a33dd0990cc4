"""What a disk would have after a power cut: every sync of this process is recorded.

On the path of Python it is imported as each process starts. Where POWER_CUT names a folder, that
gets what is synced: a file's content, or a folder's names, under the number of the inode.
`tests.faults.power_cut` puts together from it what is left.
"""

import json
import os
import stat
import uuid
from contextlib import suppress
from pathlib import Path

RECORD = os.environ.get("POWER_CUT", "")
sync = os.fsync


def recorded(descriptor):
    """Note what is synced, and sync it."""
    sync(descriptor)
    number = os.fstat(descriptor).st_ino
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        names = {each.name: each.inode() for each in os.scandir(descriptor)}
        content = json.dumps(names).encode()
    else:
        opened = f"/proc/self/fd/{descriptor}"
        content = Path(opened).read_bytes()
        with suppress(OSError):  # another name: its number is not given to another file
            os.link(opened, f"{RECORD}/{number}.kept", follow_symlinks=True)
    new = Path(RECORD, uuid.uuid4().hex)
    new.write_bytes(content)
    new.rename(Path(RECORD, str(number)))


if RECORD:
    os.fsync = recorded
