"""Shards of a discipline and their topics in memory: any batches, each repeated from its state.

The operator is the real one, on real packs; only Spark and Kafka are left out.
"""

import random

import pyarrow as pa

from streaming.arrow.ipc import from_ipc
from streaming.arrow.output import RECORD_COLUMNS
from streaming.arrow.partitioner import partitions_of
from streaming.arrow.schemas import RECORD
from streaming.disciplines.exchange import ExchangeOperator, spread_rows
from tests.streaming.verify.worlds import Topics

PARTITIONS = 3


def plan_of(kind, *, output="out", shards=5, **more):
    """A plan of this kind, with topics of these names."""
    roles = {"output": output, "rejects": "rejects", "events": "events"}
    return kind(
        service="s",
        pipeline="p",
        inputs=("in",),
        partitions=dict.fromkeys([*roles.values(), "transit"], PARTITIONS),
        shards=shards,
        commands="commands",
        transit="transit",
        **roles,
        **more,
    )


class Floor:
    """Reads inputs, commands and transit in random batches; writes what the operator says.

    ``topics`` has the inputs and the commands.
    """

    def __init__(self, plan, operator, route, topics, seed, *, begin_ms=1_767_225_600_000):
        self.plan, self.operator, self.route = plan, operator, route
        self.topics, self.rng = topics, random.Random(seed)
        self.read = {}
        self.states = {}
        self.now_ms = begin_ms
        self.batches = 0

    def run(self, *, whole=False):
        while self.left():
            self.batch(whole=whole)

    def left(self):
        ends = {place: len(there) for place, there in self.topics.records.items()}
        return any(
            self.read.get(place, 0) < end
            for place, end in ends.items()
            if place[0] in self.plan.reads
        )

    def batch(self, *, whole=False):
        packs = {}
        for table in self.tables(whole=whole):
            for row in spread_rows(table, self.plan, self.route).to_pylist():
                packs.setdefault(row["shard"], []).append(row["rows"])
        self.now_ms += self.rng.randrange(1, 50)
        self.batches += 1
        for key, given in packs.items():
            self.step(key, given)

    def step(self, key, packs):
        """Twice from the same state, packs in another order, the second time without the cache."""
        results = []
        for _ in range(2):
            self.rng.shuffle(packs)
            after, rows = self.operator.step(key, packs, self.states.get(key), self.now_ms)
            results.append((after, rows.to_dict("list")))
            if self.rng.random() < 0.5:
                ExchangeOperator.cores.clear()
        assert results[0] == results[1], "a replayed batch gives the same bytes"
        self.states[key] = results[0][0]
        rows = results[0][1]
        for topic, blob in zip(rows["topic"], rows["rows"], strict=True):
            if topic:
                self.write(topic, from_ipc(blob))

    def cores(self):
        """The shards as a look at the state shows them."""
        return [self.operator.restored(key, row) for key, row in self.states.items()]

    def tables(self, *, whole):
        """Some of what is there, cut anywhere."""
        rows = []
        for place, there in sorted(self.topics.records.items()):
            if place[0] not in self.plan.reads:
                continue
            first = self.read.get(place, 0)
            left = len(there) - first
            count = left if whole else self.rng.choice([0, min(left, self.rng.randrange(6)), left])
            rows += there[first : first + count]
            self.read[place] = first + count
        self.rng.shuffle(rows)
        cut = self.rng.randrange(len(rows) + 1)
        for part in (rows[:cut], rows[cut:]):
            if part:
                yield pa.Table.from_pylist([self.row(record) for record in part], schema=RECORD)

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
        from streaming.arrow.totals import Totals

        return Totals.sum(Totals.from_json(state[4]) for state in self.states.values())


def given_topics(world):
    """Fresh topics with what the users of a world wrote: its inputs and commands."""
    topics = Topics()
    for (topic, partition), there in world.topics.records.items():
        if topic in ("in", "commands"):
            topics.records[topic, partition] = list(there)
    return topics
