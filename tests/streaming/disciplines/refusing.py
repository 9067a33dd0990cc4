"""A stage of groups or multicasts by the batch whose output refuses some records."""

import json

from streaming.disciplines.broadcast import pack_for_all
from streaming.disciplines.refused import FINDING, Refusal, Refused, found
from streaming.disciplines.state_keys import shard_keys
from tests.streaming.broadcast_harness import Stage


class Refusing(Stage):
    """A stage whose output refuses some records: each batch is run again without them.

    One run finds all of them, or (``one_by_one``) the first that is left.
    """

    def __init__(self, *given, choose):
        super().__init__(*given)
        self.choose = choose
        self.refused, self.runs, self.one_by_one = [], 0, False

    def take(self, records):
        runs, packs, keys = [], {}, shard_keys(self.plan.shards, self.plan.state_partitions)
        for table in self.tables(list(records)):
            for row in pack_for_all(table, keys).to_pylist():
                packs.setdefault(row["shard"], []).append(row["rows"])
        while True:
            self.operator.refused = Refused.of({FINDING: json.loads(json.dumps(runs))})
            refused = self.found(self.written(packs).all("out"))
            if not refused or (runs and not self.one_by_one):
                break
            self.refused += refused
            runs.append([self.finding(each) for each in refused])
            self.runs += 1
        super().take(records)

    def found(self, out):
        """What a run finds of what is refused."""
        refused = [each for each in out if self.choose(self, each)]
        return refused[:1] if self.one_by_one else refused

    def finding(self, record):
        given = Refusal("out", "too-large", "said", record.key, dict(record.headers), 0, 0)
        return found(given, self.plan)
