"""Until when a query has read all that had come, where its batches leave records unread."""

from __future__ import annotations

from streaming.source.positions import MARK, Offsets, Position, offsets_in


class CaughtUp:
    """Compares what one reader's batches read with the ends that it saw.

    The ends of one look are kept until all of that is read, then those of the last look: so the
    time moves in steps.
    """

    def __init__(self) -> None:
        self._known_ms = self._seen_ms = 0
        self._ends: Offsets = {}

    def noted(self, batch: Position, newest: Position, looked: float) -> Position:
        """Return where a batch ends, with the time where it leaves something unread.

        ``newest``: where the topics ended at the look at this time (Unix, in seconds).
        """
        read, ends, looked_ms = offsets_in(batch), offsets_in(newest), round(looked * 1000)
        if not _left(read, ends, ends):
            self._known_ms, self._ends = looked_ms, {}
            return batch
        if not self._ends:
            self._ends, self._seen_ms = ends, looked_ms
        elif not _left(read, self._ends, ends):
            self._known_ms = self._seen_ms
            self._ends, self._seen_ms = ends, looked_ms
        return {**batch, MARK: {"caught_up_ms": self._known_ms}}


def _left(read: Offsets, until: Offsets, ends: Offsets) -> bool:
    """Return whether something is unread below ``until`` that is still there."""
    return any(
        read.get(topic, {}).get(at, 0) < min(offset, ends.get(topic, {}).get(at, 0))
        for topic, of in until.items()
        for at, offset in of.items()
    )
