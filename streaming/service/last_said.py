"""What the service said last of a pipeline: why it stopped or waits, for those who look later.

The log has it too; the checkpoint's `said.json` has it where the log is elsewhere, or gone.
"""

from __future__ import annotations

import json
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

    def __init__(self, files: Files) -> None:
        self._files = files

    def note(self, event: str, text: str) -> None:
        """Replace it, where the storage can be written to."""
        at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        said = asdict(Said(at, event, text[:TEXT_MAX]))
        with suppress(SequencerError):
            self._files.write(NAME, json.dumps(said, sort_keys=True).encode())

    def read(self) -> Said | None:
        """Return it; None where there is none that can be read."""
        with suppress(SequencerError, ValueError, TypeError):
            return Said(**json.loads(self._files.read(NAME)))
        return None


def farewell(error: BaseException | None) -> tuple[str, str]:
    """Return the event and the sentence with which the work ended."""
    if error is None:
        return "stopped", "Stopped in order."
    said = str(error) if isinstance(error, SequencerError) else f"{type(error).__name__}: {error}"
    return "failed", f"Stopped by a fault: {said}"
