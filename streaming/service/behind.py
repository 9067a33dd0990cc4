"""How far what shards sent each other was read, and when: `behind.json` of a checkpoint."""

from __future__ import annotations

import json
from contextlib import suppress

from streaming.errors import SequencerError
from streaming.storage.files import Files

NAME = "behind.json"
Step = tuple[float, dict[int, int]]
"""Seconds since 1970, and by partition the offsets before which all was read then."""


class Behind:
    """Reads and writes the steps, the newest last, where the storage answers."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def read(self) -> list[Step]:
        """Return them; none where there are none that can be read."""
        with suppress(SequencerError, ValueError, TypeError, AttributeError):
            found = json.loads(self._files.read(NAME) or b"[]")
            return [(at, {int(n): offset for n, offset in of.items()}) for at, of in found]
        return []

    def write(self, steps: list[Step]) -> None:
        """Replace them."""
        with suppress(SequencerError):
            self._files.write(NAME, json.dumps(steps).encode())
