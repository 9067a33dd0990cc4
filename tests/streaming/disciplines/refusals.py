"""Operators whose shards send each other messages, over a Kafka that refuses some copies."""

import json
from collections import defaultdict

from streaming.disciplines.groups.network.core import NetworkOperator
from streaming.disciplines.groups.network.route import route as network_route
from streaming.disciplines.multicast.protocol.core import MulticastOperator
from streaming.disciplines.multicast.protocol.route import route as multicast_route
from streaming.disciplines.refused import FINDING, Refusal, Refused, found
from tests.streaming.disciplines.groups.networks import plan_for as network_plan
from tests.streaming.disciplines.multicast import floors
from tests.streaming.exchange_harness import Floor, given_topics
from tests.streaming.verify.group_worlds import random_groups
from tests.streaming.verify.multicast_worlds import random_multicasts

RUNS = 2
"""So often at most a batch is refused, each time other records of it."""


class Refusing(Floor):
    """A floor whose output refuses some records: each batch is run again without them."""

    def __init__(self, *given, choose):
        super().__init__(*given)
        self.choose = choose
        self.refused, self.wanted, self.runs = [], defaultdict(list), 0

    def take(self, packs):
        """One batch: run until nothing is refused, what would have been written is noted."""
        findings = []
        for _ in range(RUNS):
            self.operator.refused = Refused.of({FINDING: findings})
            written = self.dry(packs)
            if not findings:
                for record in written:
                    self.wanted[record.key].append(content(record))
            refused = [each for each in written if self.choose(self, each)]
            if not refused:
                break
            self.refused += refused
            for each in refused:
                self.wanted[each.key].remove(content(each))
            findings.append(json.loads(json.dumps([self.finding(each) for each in refused])))
            self.runs += 1
        self.operator.refused = Refused.of({FINDING: findings})
        super().take(packs)

    def dry(self, packs):
        """The deliveries that a run would write."""
        return self.written(packs).all("out")

    def finding(self, record):
        given = Refusal("out", "too-large", "said", record.key, dict(record.headers), 0, 0)
        return found(given, self.plan)


def content(record):
    own = [each for each in record.headers if each[0] not in ("sequence", "incarnation")]
    return record.value, record.timestamp, own


def refusing(kind, seed, choose, **marks):
    if kind == "network":
        world = random_groups(seed, commands=0.1, steps=70)
        more = {"notices": seed % 2 == 0, "origin": seed % 3 == 0, **marks}
        plan = network_plan(world.configured, output="out", shards=1 + seed % 5, **more)
        operator, route = NetworkOperator(plan), network_route(plan)
    else:
        world = random_multicasts(seed, steps=40, order=kind)
        plan = floors.plan_for(kind, shards=1 + seed % 5, origin=seed % 3 == 0, **marks)
        operator, route = MulticastOperator(plan), multicast_route(plan)
    return Refusing(plan, operator, route, given_topics(world), seed, choose=choose)


def is_notice(record):
    return "notice" in dict(record.headers)


def destination(record):
    return dict(record.headers).get("destination", record.key)


def message(record):
    """What a message's copies have in common."""
    headers = dict(record.headers)
    names = ("from", "timestamp", "sender", "group", "group-version", "group-sequence")
    return tuple(headers.get(name) for name in names)
