"""How many records a pipeline reads in one batch."""

from __future__ import annotations

from streaming.config.tables import Service
from streaming.disciplines.discipline import Pace
from streaming.disciplines.source import BATCH_RECORDS, BATCH_RECORDS_GROWN, Limits
from streaming.service.query import Progress


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
        return Limits(
            records, service.batch_bytes_max, grown, progress.kept, lambda: self._fewer(progress)
        )

    def _fewer(self, progress: Progress) -> int:
        """How many records give about as many deliveries as a batch may have; 0: any number."""
        if self.pace.deliveries_max is None or progress.copies <= 1:
            return 0
        return max(1, int(self.pace.deliveries_max / progress.copies))

    def changes(self, held: int) -> bool:
        """Slow down or go on at full speed, by the deliveries that wait; whether it changed."""
        if self.pace.held_high is None:
            return False
        slow = held >= self.pace.held_low if self.slow else held > self.pace.held_high
        changed, self.slow = slow != self.slow, slow
        return changed
