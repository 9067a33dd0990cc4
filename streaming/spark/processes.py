"""Settings of all the service's processes: memory, signals, a quiet end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

ALLOCATORS = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "MALLOC_TOP_PAD_": str(32 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(128 * 2**20),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
"""Settings of the C library's allocator, in the JVM and its workers. By default each thread of
RocksDB or librdkafka may keep an arena of its own: 80 MiB more, and not faster. Memory of large
records is kept for the next batch: else the system clears it anew, page by page. So Arrow uses this
allocator, not its own: as fast with small records, 10 % faster with large ones."""
FILE_NAMES = {"LC_ALL": "C.UTF-8"}
"""Has Java write names of files in UTF-8, as Python does, whatever the locale of the host: under
LC_ALL=C it writes other names, and cannot open those with letters beyond ASCII."""
UNHEARD = ["/bin/sh", "-c", 'trap "" INT TERM; exec "$0" "$@"']
"""Ignores Ctrl-C and SIGTERM: they are for the service, which then ends the JVM."""


def quietly(action: Callable[[], Any]) -> Callable[[], None]:
    """Return the action with its errors suppressed: at the end nothing is left to protect."""

    def act() -> None:
        with contextlib.suppress(Exception):
            action()

    return act
