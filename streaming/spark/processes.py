"""What the service's processes have in common: memory, signals, a quiet end."""

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
"""The C library's, in the JVM and its workers. By default each thread that RocksDB or librdkafka
has may keep an arena of its own, which is 80 MiB more and no quicker. Memory that large records
need is kept for the next batch: else the system clears it page by page anew. That is why Arrow has
this one, not its own: as quick with small records, a tenth quicker with large ones."""
UNHEARD = ["/bin/sh", "-c", 'trap "" INT TERM; exec "$0" "$@"']
"""Ctrl-C and SIGTERM are for the service, which then ends the JVM."""


def quietly(action: Callable[[], Any]) -> Callable[[], None]:
    """The action, without its errors: in ending nothing is left to protect."""

    def act() -> None:
        with contextlib.suppress(Exception):
            action()

    return act
