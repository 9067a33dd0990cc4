"""Shards that all see every record, and their topics in memory: any batches, each repeated.

The operator is the real one, on real packs; only Spark and Kafka are left out.
"""

import random

import pyarrow as pa

from streaming.arrow.ipc import from_ipc
from streaming.arrow.output import RECORD_COLUMNS
from streaming.arrow.partitioner import partitions_of
from streaming.arrow.schemas import RECORD
from streaming.arrow.totals import Totals
from streaming.disciplines.broadcast import BroadcastOperator, pack_for_all
from streaming.disciplines.state_keys import shard_keys

PARTITIONS = 3


def broadcast_plan(kind, *, output="out", shards=2, **more):
    """A plan of this kind, with topics of these names."""
    roles = {"output": output, "rejects": "rejects", "events": "events"}
    return kind(
        service="s",
        pipeline="p",
        inputs=("in",),
        partitions=dict.fromkeys(roles.values(), PARTITIONS),
        shards=shards,
        commands="commands",
        **roles,
        **more,
    )


class Stage:
    """Reads inputs and commands in random batches; writes what the operator says.

    ``topics`` (`tests.streaming.verify.worlds`) has the inputs and the commands.
    """

    def __init__(self, plan, operator, topics, seed=0, *, begin_ms=1_767_225_600_000):
        self.plan, self.operator = plan, operator
        self.topics, self.rng = topics, random.Random(seed)
        self.read, self.states = {}, {}
        self.now_ms, self.batches = begin_ms, 0

    def run(self, *, whole=False):
        while self.left():
            self.batch(whole=whole)

    def left(self):
        return any(
            self.read.get(place, 0) < len(there)
            for place, there in self.topics.records.items()
            if place[0] in self.plan.reads
        )

    def batch(self, *, whole=False, wait_ms=None):
        """Some of what is there, or all of it; ``wait_ms`` after the batch before."""
        rows = []
        for place, there in sorted(self.topics.records.items()):
            if place[0] in self.plan.reads:
                first = self.read.get(place, 0)
                left = len(there) - first
                some = self.rng.choice([0, min(left, self.rng.randrange(6)), left])
                count = left if whole else some
                rows += there[first : first + count]
                self.read[place] = first + count
        self.now_ms += self.rng.randrange(1, 50) if wait_ms is None else wait_ms
        self.take(rows)

    def take(self, records):
        """One batch of these records."""
        self.rng.shuffle(records)
        cut = self.rng.randrange(len(records) + 1)
        packs, keys = {}, shard_keys(self.plan.shards, self.plan.state_partitions)
        for part in (records[:cut], records[cut:]):
            if part:
                table = pa.Table.from_pylist([self.row(each) for each in part], schema=RECORD)
                for row in pack_for_all(table, keys).to_pylist():
                    packs.setdefault(row["shard"], []).append(row["rows"])
        self.batches += bool(records)
        for key, given in packs.items():
            self.step(key, given)

    def step(self, key, packs):
        """Twice from the same state, packs in another order, the second time without the cache."""
        results = []
        for _ in range(2):
            self.rng.shuffle(packs)
            results.append(drain(self.operator.step(key, packs, self.states.get(key), self.now_ms)))
            if self.rng.random() < 0.5:
                BroadcastOperator.cores.clear()
        assert results[0] == results[1], "a replayed batch gives the same bytes"
        rows, self.states[key] = results[0]
        for row in rows:
            if row["topic"]:
                self.write(row["topic"], from_ipc(row["rows"]))

    def cores(self):
        """The shards as a look at the state shows them."""
        return [self.operator.restored(key, row) for key, row in self.states.items()]

    def row(self, record):
        return {
            "topic": self.plan.reads.index(record.topic),
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": record.key,
            "value": record.value,
            "headers": [{"key": k, "value": v} for k, v in record.headers] or None,
        }

    def write(self, topic, table):
        for column in table.combine_chunks().columns:
            if pa.types.is_dictionary(column.type):
                assert not column.chunk(0).indices.null_count, "the sink takes nulls by value only"
        added = [name for name in table.column_names if name not in RECORD_COLUMNS]
        for row in table.to_pylist():
            own = [(h["key"], h["value"]) for h in row["headers"] or []]
            own += [
                (
                    self.plan.headers(name.removeprefix("header:")),
                    row[name] if isinstance(row[name], bytes) else str(row[name]).encode(),
                )
                for name in added
                if row[name] is not None
            ]
            key = pa.array([row["key"] or b""], pa.binary())
            partition = row.get("partition", int(partitions_of(key, PARTITIONS)[0]))
            time = row.get("timestamp", self.now_ms)
            self.topics.put(topic, partition, time, row["key"], row["value"], own)

    def totals(self):
        return Totals.sum(Totals.from_json(state[3]) for state in self.states.values())


def drain(step):
    """All rows of a step, and the state after it."""
    rows = []
    while True:
        try:
            rows += next(step).to_dict("records")
        except StopIteration as end:
            return rows, end.value
