"""Whether a pipeline whose session was fenced is alone all the same, and goes on.

Kafka fences a session when another one begins under its transactional id. That may be a request of
our own past which came late, of a worker that stood still for a minute; and a transaction that was
open for too long ends as if another session had begun, also while this machine was suspended, which
no clock of ours may have noticed.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

from streaming.errors import Fenced, SequencerError
from streaming.sink import failures

FENCES_MAX = 5
SECONDS = 600.0
"""A past has few late requests; another service of our name, on another checkpoint, goes on."""
TOGETHER_SECONDS = 5.0
"""Fences so soon behind one that counts are of one cause: a network held many requests back."""


@dataclass(slots=True)
class Fences:
    """The times at which a pipeline was fenced lately, those apart that followed at once."""

    times: deque[float] = field(default_factory=deque)

    def judged(self, failure: SequencerError, *, is_alone: bool) -> SequencerError:
        """Return the failure, or one that passes where it is a fence and the pipeline is alone.

        ``is_alone``: no other copy works on the checkpoint, by its lock or by its claim.
        """
        if not isinstance(failure, Fenced) or not is_alone:
            return failure
        now = time.monotonic()
        if not self.times or now - self.times[-1] >= TOGETHER_SECONDS:
            self.times.append(now)
        while self.times[0] < now - SECONDS:
            self.times.popleft()
        if len(self.times) > FENCES_MAX:
            return failure
        return failures.fenced_by_nobody()
