"""Shards of a discipline and their topics in memory: any batches, each repeated from its state.

The operator is the real one, on real packs; only Spark and Kafka are left out.
"""

from dataclasses import replace

from streaming.arrow.pack import unpacked
from streaming.arrow.totals import Totals
from streaming.disciplines.exchange import spread_rows
from tests.streaming.in_memory import InMemory, plan_of
from tests.streaming.verify.worlds import Topics


def exchange_plan(kind, *, shards=5, **more):
    """A plan of this kind, with a transit topic."""
    return plan_of(kind, shards=shards, roles=("transit",), **more)


class Floor(InMemory):
    """Reads inputs, commands and transit in random batches; writes what the operator says.

    ``topics`` has the inputs and the commands. ``waiting``: what shards told last of who waits;
    ``news``: all that they told of batches.
    """

    def __init__(self, plan, operator, route, topics, seed, **more):
        super().__init__(plan, operator, topics, seed, **more)
        self.route = route
        self.waiting, self.news = {}, []

    def batch(self, *, whole=False):
        packs = {}
        for table in self.tables(self.some(whole=whole)):
            for row in spread_rows(table, self.plan, self.route).to_pylist():
                packs.setdefault(row["shard"], []).append(row["rows"])
        self.now_ms += self.rng.randrange(1, 50)
        self.operator.context = replace(self.operator.context, batch=self.batches)
        self.batches += 1
        self.take(packs)

    def take(self, packs):
        """One batch of these packs, by state key."""
        for key, given in packs.items():
            self.step(key, given)

    def step(self, key, packs):
        for row in super().step(key, packs):
            told = Totals.from_json(row["totals"] or "{}")
            self.news += [told] if row["totals"] else []
            if told.waiting is not None:
                self.waiting[key] = told.waiting
        assert self.news[-1].read == sum(map(len, unpacked(packs)))


def given_topics(world):
    """Fresh topics with what the users of a world wrote: its inputs and commands."""
    topics = Topics()
    for (topic, partition), there in world.topics.records.items():
        if topic in ("in", "commands"):
            topics.records[topic, partition] = list(there)
    return topics


def run_with_repeats(floor):
    """To the end, with everything in transit twice."""
    while floor.left():
        before = {k: len(v) for k, v in floor.topics.records.items() if k[0] == "transit"}
        floor.batch()
        for place, there in floor.topics.records.items():
            if place[0] == "transit":
                for record in there[before.get(place, 0) :]:
                    again = (record.key, record.value, record.headers)
                    floor.topics.put("transit", place[1], record.timestamp, *again)
