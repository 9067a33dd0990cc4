"""How many records a pipeline reads in one batch."""

from __future__ import annotations

from streaming.config.tables import Service
from streaming.disciplines.discipline import Pace
from streaming.disciplines.source import BATCH_RECORDS, BATCH_RECORDS_GROWN, Limits
from streaming.service.progress import Progress

FIRST_RECORDS = 50_000
"""Of the first batch after a start, when nobody knows how fast records go: behind a backlog readers
get something as early as they can."""

FIRST_DELIVERIES, FIRST_UNKNOWN = 100_000, 1_000
"""The same where a record may have several deliveries: the number of these, and the number of
records where none was counted yet, as a command may have made a group of thousands."""

FIRST_SHARE = 4
"""The first batch after a start has a quarter of the bytes: no shard has said yet how many it
keeps."""

BATCH_SECONDS_MAX = 2.0
"""Readers may wait this long for a batch, going by the one before it."""

GROWTH = 4
"""A batch that took half of that at most is followed by one with this many times its records: what
a batch costs besides them is most of a small one, which says little of how fast a large one is."""


class Speed:
    """How fast a pipeline reads its inputs: at its discipline's pace, or slowly for a while."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.slow = False

    def limits(self, service: Service, progress: Progress) -> Limits:
        """A batch's, by what the driver knows when it comes."""
        records, grown = service.batch_records_max or BATCH_RECORDS, 0
        if self.slow:
            records = 1
        elif self.pace.records_max:
            records = min(records, self.pace.records_max)
        elif service.batch_records_max is None:
            grown = BATCH_RECORDS_GROWN
        timed = service.batch_records_max is None and not self.slow

        def fewer() -> int:
            bounds = [self._in_deliveries(progress)]
            bounds += [self._in_time(progress)] if timed else []
            return min(filter(None, bounds), default=0)

        def smaller() -> int:
            size, kept = self.pace.bytes_max, progress.kept_bytes
            if size and progress.shards and not kept:  # a start: the state may have all of that
                return max(1, size // FIRST_SHARE)
            return max(1, size - sum(kept.values())) if size else 0

        return Limits(records, service.batch_bytes_max, grown, progress.kept, fewer, smaller)

    def _in_deliveries(self, progress: Progress) -> int:
        """Return how many records give about as many deliveries as a batch may have; 0: any."""
        if self.pace.deliveries_max is None or progress.copies <= 1:
            return 0
        return max(1, int(self.pace.deliveries_max / progress.copies))

    def _in_time(self, progress: Progress) -> int:
        """Return how many records a batch has time for.

        As many as the state has entries in any case: all of it is read and written with a batch.
        """
        first, seconds = self._first(progress), progress.last_seconds
        if not progress.last_records:
            return first
        growth = max(BATCH_SECONDS_MAX / seconds, GROWTH * (seconds <= BATCH_SECONDS_MAX / 2))
        return max(first, int(progress.last_records * growth), progress.kept())

    def _first(self, progress: Progress) -> int:
        if self.pace.deliveries_max is None:
            return FIRST_RECORDS
        if not progress.copies:
            return FIRST_UNKNOWN
        return max(1, int(FIRST_DELIVERIES / max(1.0, progress.copies)))

    def changes(self, held: int) -> bool:
        """Slow down or go on at full speed, by the deliveries that wait; whether it changed."""
        if self.pace.held_high is None:
            return False
        slow = held >= self.pace.held_low if self.slow else held > self.pace.held_high
        changed, self.slow = slow != self.slow, slow
        return changed
