"""What the service said last of a pipeline: why it stopped or waits, for those who look later.

The log has it too; the checkpoint's `said.json` has it where the log is elsewhere, or gone.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from streaming.errors import SequencerError
from streaming.storage.files import Files

NAME = "said.json"
TEXT_MAX = 2_000
"""Characters of a sentence that are kept."""


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence of the service; ``at``: RFC 3339, UTC; ``event``: its word in the log."""

    at: str
    event: str
    text: str


class LastSaid:
    """The last sentence, in a checkpoint's files. Nothing rests on it, so its faults are none."""

    def __init__(self, files: Files, is_held: Callable[[], bool]) -> None:
        self._files = files
        self._is_held = is_held

    def note(self, event: str, text: str) -> bool:
        """Replace it, unless a newer copy works here; False where the storage does not answer."""
        at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        said = asdict(Said(at, event, text[:TEXT_MAX]))
        with suppress(SequencerError):
            if self._is_held():
                self._files.write(NAME, json.dumps(said, sort_keys=True).encode())
            return True
        return False

    def read(self) -> Said | None:
        """Return it; None where there is none that can be read."""
        with suppress(SequencerError, ValueError, TypeError):
            return Said(**json.loads(self._files.read(NAME)))
        return None


def farewell(error: BaseException | None) -> tuple[str, str]:
    """Return the event and the sentence with which the work ended."""
    if error is None:
        return "stopped", "Stopped in order."
    # Not str: that of an error of Java's asks the JVM, which may be gone.
    plain = traceback.format_exception_only(error)[0].strip()
    said = str(error) if isinstance(error, SequencerError) else plain
    return "failed", f"Stopped by a fault: {said}"
