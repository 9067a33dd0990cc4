"""A stage of groups or multicasts by the batch whose output refuses some records."""

import json

from streaming.arrow.ipc import from_ipc
from streaming.disciplines.broadcast import BroadcastOperator, pack_for_all
from streaming.disciplines.refused import FINDING, Refusal, Refused, found
from streaming.disciplines.state_keys import shard_keys
from streaming.disciplines.state_row import StateRow
from tests.streaming.broadcast_harness import Stage, drain
from tests.streaming.verify.worlds import Topics


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
            refused = self.found(self.deliveries(packs))
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

    def deliveries(self, packs):
        """What a run would deliver; it leaves no trace."""
        out = Topics(holes=False)
        real, self.topics = self.topics, out
        for key, given in packs.items():
            rows, _ = drain(
                self.operator.step(key, given, self.states.get(key, StateRow()), self.now_ms)
            )
            BroadcastOperator.cores.clear()
            for row in rows:
                if row["topic"] == "out":
                    self.write("out", from_ipc(row["rows"]))
        self.topics = real
        return out.all("out")

    def finding(self, record):
        given = Refusal("out", "too-large", "said", record.key, dict(record.headers), 0, 0)
        return found(given, self.plan)
