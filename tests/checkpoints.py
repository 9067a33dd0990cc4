"""A checkpoint in memory: what the driver asks of one in each batch."""

import json


class MemoryCheckpoint:
    """`streaming.service.decisions.BatchCheckpoint`; the offset log has what a test puts into it."""

    def __init__(self):
        self.offsets, self.done, self.kept, self.newest = {}, -1, "{}", 0

    def batch_in_doubt(self):
        planned = max(self.offsets, default=-1)
        return planned if planned > self.done else -1

    def logged(self, batch):
        return json.dumps(self.offsets.get(batch)).encode()

    def logged_if_kept(self, batch):
        return self.logged(batch) if batch in self.offsets else None

    def newest_ms(self):
        return self.newest

    def decisions(self):
        return json.loads(self.kept)

    def write_decisions(self, values):
        self.kept = json.dumps(values)

    def sync_logs(self):
        pass

    def sync_state(self):
        pass
