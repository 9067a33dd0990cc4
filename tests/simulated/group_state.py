"""Spark's view of the state of one key."""

from __future__ import annotations


class GroupState:
    """Spark's view of one key's state (`pyspark.sql.streaming.state.GroupState`)."""

    def __init__(self, row, now_ms, *, timed_out):
        self.row, self.now_ms, self.hasTimedOut = row, now_ms, timed_out
        self.timeout_ms = None

    @property
    def exists(self):
        """Whether there is one."""
        return self.row is not None

    @property
    def get(self):
        """The row."""
        return self.row

    def update(self, row):
        """Replace it."""
        self.row = tuple(row)

    def getCurrentProcessingTimeMs(self):  # noqa: N802  (Spark's name)
        """The batch's time."""
        return self.now_ms

    def setTimeoutDuration(self, duration_ms):  # noqa: N802
        """Ask for a call after so long."""
        self.timeout_ms = self.now_ms + duration_ms
