"""Attempts at batches of one shard, as Spark makes them."""

import pandas as pd

from streaming.disciplines.state_row import StateRow


class State:
    """Spark's state of a shard, kept when the test says that the batch is done."""

    hasTimedOut = False  # noqa: N815

    def __init__(self):
        self.kept = self.new = None
        self.now_ms = 1_000

    @property
    def exists(self):
        return self.kept is not None

    @property
    def get(self):
        return (self.kept.to_text(),)

    def update(self, row):
        self.new = StateRow.from_text(*row)

    def getCurrentProcessingTimeMs(self):  # noqa: N802
        return self.now_ms

    def setTimeoutDuration(self, _ms):  # noqa: N802
        pass


def run(operator, state, packs):
    """One attempt at a batch; the tables' bytes."""
    rows = [*operator((7,), iter([pd.DataFrame({"rows": packs})]), state)]
    return [frame["rows"].tolist() for frame in rows]
