"""Several runs of a batch with refused copies: what stays of those before the last.

At-least-once all that each says is written, and the last counts; else parts that were committed.
"""

import json
from collections import Counter

import pytest

from streaming.disciplines.inquiries import Inquiries
from streaming.disciplines.refused import FINDING, Refused
from tests.streaming.disciplines.refusals import (
    Refusing,
    content,
    destination,
    is_notice,
    message,
    refusing,
)
from tests.streaming.exchange_harness import Floor
from tests.streaming.verify.worlds import Topics


class AtLeastOnce(Refusing):
    """What a run writes stays, but for what is behind a refused record of a partition."""

    def some(self, *, whole=False):
        """Of the transit topic a batch reads all that is there, as the real one does."""
        records = super().some(whole=whole)
        for place, there in sorted(self.topics.records.items()):
            if place[0] == "transit":
                records += there[self.read.get(place, 0) :]
                self.read[place] = len(there)
        return records

    def take(self, packs):
        self.run_until_taken(lambda: self.write_run(packs))
        Floor.take(self, packs)

    def run_until_taken(self, run):
        """Run a batch, each time without what was refused; ``run`` returns what is."""
        findings = []
        self.operator.refused = Refused.of({FINDING: findings})
        while refused := run():
            self.refused += refused
            findings.append(json.loads(json.dumps([self.finding(each) for each in refused])))
            self.operator.refused = Refused.of({FINDING: findings})

    def write_run(self, packs):
        """Write what a run of the batch writes that ends at refused records; return these."""
        run = self.written(packs)
        refused = []
        for (topic, _), records in run.records.items():
            bad = [r for r in records if topic == "out" and self.is_refused(r)]
            refused += bad[:1]
        for (topic, partition), records in run.records.items() if refused else ():
            for r in records:  # else the last run writes them
                if r in refused:
                    break
                self.topics.put(topic, partition, r.timestamp, r.key, r.value, r.headers)
        return refused

    def is_refused(self, record):
        named = (record.key, message(record), destination(record), str(content(record)))
        if named not in self.known:
            self.known[named] = self.choose(self, record)
        return self.known[named]


class InParts(AtLeastOnce):
    """Exactly once, in parts of some records: those before one with refused records stay."""

    def take(self, packs):
        there = []
        self.run_until_taken(lambda: self.write_parts(packs, there))
        written, self.topics = self.topics, Topics(holes=False)
        Floor.take(self, packs)
        self.topics = written

    def write_parts(self, packs, there):
        """Write what is not there yet, part by part, until one has refused records."""
        records = [
            (*place, record.key, record.value, tuple(record.headers), record.timestamp, record)
            for key in sorted(packs)
            for place, some in self.written({key: packs[key]}).records.items()
            for record in some
        ]
        assert [each[:-1] for each in records[: len(there)]] == there, "a repeat gives the same"
        while len(there) < len(records):
            part = records[len(there) : len(there) + self.rng.randrange(1, 5)]
            out = [record for topic, *_, record in part if topic == "out"]
            refused = [record for record in out if self.is_refused(record)]
            if refused:
                return refused
            for topic, partition, key, value, headers, timestamp, _ in part:
                self.topics.put(topic, partition, timestamp, key, value, headers)
            there += [each[:-1] for each in part]
        return []


def some(floor, record):
    return not is_notice(record) and floor.rng.random() < 0.3


@pytest.mark.parametrize("kind", ["network", "clock", "counter"])
@pytest.mark.parametrize("seed", [1, 6, 29])
def test_each_refused_copy_ends_in_an_event_or_a_reject(kind, seed):
    judge(kind, worked(AtLeastOnce, refusing(kind, seed, some, delivery="at-least-once")))


@pytest.mark.parametrize("kind", ["network", "clock", "counter"])
@pytest.mark.parametrize("seed", [6])
def test_what_parts_of_a_batch_wrote_before_one_with_refused_copies_counts(kind, seed):
    judge(kind, worked(InParts, refusing(kind, seed, some)))


def worked(how, floor):
    floor.__class__, floor.known = how, {}
    floor.run()
    return floor


def judge(kind, floor):
    for key, row in floor.states.items():
        assert floor.operator.take(key, row).inquiries == Inquiries(), "nothing waits for ever"
    totals = floor.totals()
    assert sum(floor.known.values()) == len(floor.refused)
    assert totals.transit == totals.held == 0
    if kind == "network":
        taken = {message(r) for r in floor.topics.all("out")}
        nobody = Counter(message(r) for r in floor.refused if message(r) not in taken)
        assert totals.rejected.get("too-large", 0) == len(nobody), "one reject for each message"
        assert len(floor.refused) - totals.undelivered == sum(nobody.values())
