"""Shards that all see every record, and their topics in memory: any batches, each repeated.

The operator is the real one, on real packs; only Spark and Kafka are left out.
"""

import pyarrow as pa

from streaming.arrow.pack import unpacked
from streaming.arrow.totals import Totals
from streaming.disciplines.broadcast import pack_for_all
from streaming.disciplines.state_keys import shard_keys
from tests.streaming.in_memory import InMemory, plan_of


def broadcast_plan(kind, *, shards=2, **more):
    """A plan of this kind."""
    return plan_of(kind, shards=shards, **more)


class Stage(InMemory):
    """Reads inputs and commands in random batches; writes what the operator says.

    ``topics`` (`tests.streaming.verify.worlds`) has the inputs and the commands.
    """

    def batch(self, *, whole=False, wait_ms=None):
        """Some of what is there, or all of it; ``wait_ms`` after the batch before."""
        records = self.some(whole=whole)
        self.now_ms += self.rng.randrange(1, 50) if wait_ms is None else wait_ms
        self.take(records)

    def take(self, records):
        """One batch of these records."""
        packs, keys = {}, shard_keys(self.plan.shards, self.plan.state_partitions)
        for table in self.tables(records):
            for row in pack_for_all(table, keys).to_pylist():
                packs.setdefault(row["shard"], []).append(row["rows"])
        self.batches += bool(records)
        for key, given in packs.items():
            self.step(key, given)

    def step(self, key, packs):
        rows = super().step(key, packs)
        assert Totals.from_json(rows[-1]["totals"]).read == sum(map(len, unpacked(packs)))

    def write(self, topic, table):
        for column in table.combine_chunks().columns:
            if pa.types.is_dictionary(column.type):
                assert not column.chunk(0).indices.null_count, "the sink takes nulls by value only"
        super().write(topic, table)
