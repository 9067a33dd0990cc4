"""Topics in memory, and what reads and writes them there as Spark and the sink do."""

import random

import pyarrow as pa

from streaming.arrow.ipc import from_ipc
from streaming.arrow.partitioner import partitions_of
from streaming.arrow.schemas import RECORD
from streaming.arrow.totals import Totals
from streaming.disciplines.state_row import StateRow
from streaming.wire.encoded import RECORD_COLUMNS
from tests.streaming.verify.worlds import Topics

PARTITIONS = 3


def plan_of(kind, *, output="out", roles=(), **more):
    """A plan of this kind, with topics of these names; ``roles``: topics besides."""
    named = {"output": output, "rejects": "rejects", "events": "events", **{r: r for r in roles}}
    return kind(
        service="s",
        pipeline="p",
        inputs=("in",),
        partitions=dict.fromkeys(named.values(), PARTITIONS),
        commands="commands",
        **named,
        **more,
    )


class InMemory:
    """Shards of an operator; ``topics`` has the inputs and the commands.

    What inherits from it takes a `batch`.
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

    def some(self, *, whole=False):
        """Some of what is there and was not read yet, or all of it."""
        records = []
        for place, there in sorted(self.topics.records.items()):
            if place[0] in self.plan.reads:
                first = self.read.get(place, 0)
                left = len(there) - first
                some = self.rng.choice([0, min(left, self.rng.randrange(6)), left])
                count = left if whole else some
                records += there[first : first + count]
                self.read[place] = first + count
        return records

    def tables(self, records):
        """Records in any order, cut anywhere."""
        self.rng.shuffle(records)
        cut = self.rng.randrange(len(records) + 1)
        for part in (records[:cut], records[cut:]):
            if part:
                yield pa.Table.from_pylist([self.row(record) for record in part], schema=RECORD)

    def step(self, key, packs):
        """Twice from the same state, packs in another order, the second time without the cache."""
        results = []
        for _ in range(2):
            self.rng.shuffle(packs)
            before = self.states.get(key, StateRow())
            rows, core = drain(self.operator.step(key, packs, before, self.now_ms))
            results.append((rows, self.operator.keep(key, core)))
            if self.rng.random() < 0.5:
                self.operator.cores.clear()
        assert results[0] == results[1], "a replayed batch gives the same bytes"
        rows, self.states[key] = results[0]
        self.write_rows(rows)
        return rows

    def written(self, packs):
        """The topics with what a run writes; it leaves no trace."""
        real, self.topics = self.topics, Topics(holes=False)
        for key, given in packs.items():
            before = self.states.get(key, StateRow())
            rows, _ = drain(self.operator.step(key, given, before, self.now_ms))
            self.operator.cores.clear()
            self.write_rows(rows)
        run, self.topics = self.topics, real
        return run

    def totals(self):
        return Totals.sum(Totals.from_json(state.totals) for state in self.states.values())

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

    def write_rows(self, rows):
        for row in rows:
            if row["topic"]:
                self.write(row["topic"], from_ipc(row["rows"]))

    def write(self, topic, table):
        added = [name for name in table.column_names if name not in RECORD_COLUMNS]
        rows = table.to_pylist()
        keys = pa.array([row["key"] or b"" for row in rows], pa.binary())
        for row, home in zip(rows, partitions_of(keys, PARTITIONS).tolist(), strict=True):
            own = [(h["key"], h["value"]) for h in row["headers"] or []]
            own += [
                (
                    self.plan.headers(name.removeprefix("header:")),
                    row[name] if isinstance(row[name], bytes) else str(row[name]).encode(),
                )
                for name in added
                if row[name] is not None
            ]
            partition = row.get("partition", home)
            time = row.get("timestamp", self.now_ms)
            self.topics.put(topic, partition, time, row["key"], row["value"], own)


def drain(step):
    """All rows of a step, and the core after it."""
    rows = []
    while True:
        try:
            rows += next(step).to_dict("records")
        except StopIteration as end:
            return rows, end.value
