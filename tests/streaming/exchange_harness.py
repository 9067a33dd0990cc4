"""Shards of a discipline and their topics in memory: any batches, each repeated from its state.

The operator is the real one, on real packs; only Spark and Kafka are left out.
"""

from dataclasses import replace

from streaming.arrow.ipc import from_ipc
from streaming.arrow.pack import unpacked
from streaming.arrow.totals import Totals
from streaming.disciplines.exchange import ExchangeOperator, spread_rows
from streaming.disciplines.state_row import StateRow
from tests.streaming.broadcast_harness import drain
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
        """Twice from the same state, packs in another order, the second time without the cache."""
        results = []
        for _ in range(2):
            self.rng.shuffle(packs)
            before = self.states.get(key, StateRow())
            rows, core = drain(self.operator.step(key, packs, before, self.now_ms))
            results.append((rows, self.operator.keep(key, core)))
            if self.rng.random() < 0.5:
                ExchangeOperator.cores.clear()
        assert results[0] == results[1], "a replayed batch gives the same bytes"
        rows, self.states[key] = results[0]
        for row in rows:
            if row["topic"]:
                self.write(row["topic"], from_ipc(row["rows"]))
            told = Totals.from_json(row["totals"] or "{}")
            self.news += [told] if row["totals"] else []
            if told.waiting is not None:
                self.waiting[key] = told.waiting
        assert self.news[-1].read == sum(map(len, unpacked(packs)))

    def totals(self):
        return Totals.sum(Totals.from_json(state.totals) for state in self.states.values())


def given_topics(world):
    """Fresh topics with what the users of a world wrote: its inputs and commands."""
    topics = Topics()
    for (topic, partition), there in world.topics.records.items():
        if topic in ("in", "commands"):
            topics.records[topic, partition] = list(there)
    return topics
