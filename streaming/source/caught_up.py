"""Until when a query has read all that had come, where its batches leave records unread."""

from __future__ import annotations

import time
from dataclasses import replace

from streaming.source.positions import MARK, Offsets, Position, logs_in, offsets_in, position

SLOW_MS = 500
"""A batch that is planned later than this after the look at the ends may leave some unread."""
SHRUNK_MS = 30_000
"""Ends that stay lower for this time are no new leader's that knows less for a moment."""


class CaughtUp:
    """Compares what one reader's batches read with the ends that it saw.

    The ends of one look are kept until all of that is read, then those of the last look: so the
    time moves in steps. ``goes_on``: whether reading that was behind when an earlier query ended
    counts as behind since then; with ``--once`` it counts from this query's beginning.
    """

    def __init__(self, *, goes_on: bool = True) -> None:
        self._began_ms = 0 if goes_on else round(time.time() * 1000)
        self._known_ms = self._looked_ms = 0
        self._kept: Offsets = {}
        self._most: Offsets = {}
        self._shrunk_ms: int | None = None

    def noted(self, start: Position, end: Position, newest: Position, looked: float) -> Position:
        """Return a batch's end with the time, if it may leave something unread.

        ``newest``: where the topics ended at the look that began at this time (Unix, in seconds).
        ``end`` is ``start`` where there is nothing new, which is returned then; but if it leaves
        nothing unread any more, the same end without the time.
        """
        looked_ms = round(looked * 1000)
        until_ms = self._until_ms(offsets_in(end), offsets_in(newest), looked_ms)
        if end is start:
            if MARK not in start or until_ms is not None:
                return start
            logs = {topic: replace(log, begins={}) for topic, log in logs_in(end).items()}
            return position(offsets_in(end), logs)
        if until_ms is not None:
            known_ms = start.get(MARK, {}).get("behind_ms", looked_ms)
            behind_ms = min(max(known_ms, self._began_ms), looked_ms)
        elif time.time() * 1000 - looked_ms > SLOW_MS:
            until_ms = behind_ms = looked_ms
        else:
            return end
        return {**end, MARK: {"caught_up_ms": until_ms, "behind_ms": behind_ms}}

    def _until_ms(self, read: Offsets, ends: Offsets, looked_ms: int) -> int | None:
        """Return until when all is read; None: nothing is known to be left."""
        self._see(ends, looked_ms)
        if not _is_left(read, self._kept):
            self._known_ms = self._looked_ms if self._kept else self._known_ms
            self._kept, self._looked_ms = self._most, looked_ms
        if not _is_left(read, self._kept):
            self._known_ms, self._kept = looked_ms, {}
            return None
        return self._known_ms

    def _see(self, ends: Offsets, looked_ms: int) -> None:
        """Note ends, and those that were seen before, which a new leader may not know of yet."""
        if not _is_left(ends, self._most):
            self._most, self._shrunk_ms = ends, None
            return
        self._shrunk_ms = looked_ms if self._shrunk_ms is None else self._shrunk_ms
        if looked_ms - self._shrunk_ms >= SHRUNK_MS:
            self._most = self._kept = ends
            self._looked_ms, self._shrunk_ms = looked_ms, None
            return
        self._most = _greatest(ends, self._most)


def _greatest(ends: Offsets, others: Offsets) -> Offsets:
    """Return the greater end of each partition."""
    found: dict[str, dict[str, int]] = {}
    for each in (ends, others):
        for topic, of in each.items():
            known = found.setdefault(topic, {})
            known.update({at: max(end, known.get(at, 0)) for at, end in of.items()})
    return found


def _is_left(read: Offsets, ends: Offsets) -> bool:
    """Return whether a partition's end in ``ends`` lies beyond where it is ``read``."""
    return any(
        read.get(topic, {}).get(at, 0) < offset
        for topic, of in ends.items()
        for at, offset in of.items()
    )
