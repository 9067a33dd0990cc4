"""Multicasts of 1,000 peers, commands about nodes, answers by side channels: traffic for tests."""

import json
import random

from streaming.demo.stage import cause
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import write_config

PEERS = [b"p%03d" % n for n in range(1000)]
NODES = [b"n%d" % n for n in range(20)]
WIDEST = 50
PARTITIONS = 2
ANSWERS_MAX = 5_000


class Traffic:
    """Multicasts with unique values, commands about nodes, answers to deliveries by side channels.

    Counts what must come of it: ``deliveries``, of which some are `undelivered` instead, those of
    answers apart, which another thread counts, and ``bad`` records. ``handles``: how many of the
    multicasts pass a handle on. ``in_input``: commands other than creations are records of the
    input, of the node's owner.
    """

    def __init__(self, broker, prefix, orders, seed, handles=0.02, *, in_input=False):
        self.bootstrap, self.prefix, self.orders = broker.bootstrap, prefix, orders
        self.handles, self.in_input, self.owners = handles, in_input, {}
        self.rng, self.rng_of_answers = random.Random(seed), random.Random(seed)
        self.sent = dict.fromkeys(orders, 0)
        self.deliveries = dict.fromkeys(orders, 0)
        self.bad = dict.fromkeys(orders, 0)
        self.answers = dict.fromkeys(orders, 0)
        self.answers_deliveries = dict.fromkeys(orders, 0)
        self.destroyed = []

    def topic(self, order, role):
        return f"{self.prefix}{order}.{role}"

    @property
    def outputs(self):
        return [self.topic(order, "output") for order in self.orders]

    def destinations(self, rng):
        """One to fifty peers, and sometimes a node."""
        to = rng.sample(PEERS, rng.randint(1, WIDEST))
        if rng.random() < 0.05:
            to[-1:] = [b"@" + rng.choice(NODES)]
        return to

    def multicast(self, count):
        """The same history for all orders; some of it is bad."""
        some = []
        for _ in range(count):
            sender, to = self.rng.choice(PEERS), self.destinations(self.rng)
            good = self.rng.random() < 0.995
            headers = [("to", b",".join(to if good else [*to, b"@never"]))]
            if self.rng.random() < self.handles:
                headers.append(("handles", b"@" + self.rng.choice(NODES)))
            value = b"m%d" % self.sent[self.orders[0]]
            some.append(Record(sender, value, headers, PEERS.index(sender) % PARTITIONS))
            for order in self.orders:
                self.sent[order] += 1
                self.bad[order] += not good
                self.deliveries[order] += good * len(to)
        for order in self.orders:
            produce(self.bootstrap, self.topic(order, "in"), some)

    def command(self, op, node):
        """Create a node of some peer, destroy it, or let some peer give back its handle."""
        value = {"op": op, "node": node.decode(), "id": f"{op} {node.decode()}", "by": "bob"}
        if op == "create-node":
            value["owner"] = self.owners[node] = self.rng.choice(PEERS).decode()
        if op == "release":
            value["peer"] = self.rng.choice(PEERS).decode()
        role, record = "commands", Record(None, json.dumps(value).encode(), partition=0)
        if self.in_input and op != "create-node":
            owner, header = self.owners[node].encode(), [("op", value.pop("op").encode())]
            partition = PEERS.index(owner) % PARTITIONS
            role, record = "in", Record(owner, json.dumps(value).encode(), header, partition)
        for order in self.orders:
            produce(self.bootstrap, self.topic(order, role), [record])

    def destroy(self):
        """Half of the nodes end one after the other."""
        if len(self.destroyed) < len(NODES) // 2:
            node = NODES[len(self.destroyed)]
            self.destroyed.append(node)
            self.command("destroy-node", node)

    def release(self, count):
        """Some peers give back handles that they may have."""
        for _ in range(count):
            self.command("release", self.rng.choice(NODES))

    def answer(self, message):
        """Anybody, to whom the reader told what it had read."""
        rng, order = self.rng_of_answers, message.topic().split(".")[-2]
        if self.answers[order] >= ANSWERS_MAX or rng.random() >= 0.01:
            return None
        self.answers[order] += 1
        sender, to = rng.choice(PEERS), rng.sample(PEERS, rng.randint(1, WIDEST))
        if message.key() not in to:
            to[0] = message.key()
        self.answers_deliveries[order] += len(to)
        headers = [("to", b",".join(to)), cause(message)]
        value = b"a%d" % self.answers[order]
        partition = PEERS.index(sender) % PARTITIONS
        return self.topic(order, "in"), sender, value, headers, partition


def pipelines(traffic):
    """A pipeline for each order; the topics that users write to, and the outputs, are made."""
    roles = ("output", "rejects", "events", "commands")
    orders = traffic.orders
    create_topics(traffic.bootstrap, {traffic.topic(order, "in"): PARTITIONS for order in orders})
    create_topics(traffic.bootstrap, {traffic.topic(order, "commands"): 1 for order in orders})
    create_topics(traffic.bootstrap, {traffic.topic(order, "output"): 4 for order in orders})
    return {
        order: {
            "discipline": "multicast",
            "order": order,
            "input": traffic.topic(order, "in"),
            **{role: traffic.topic(order, role) for role in roles},
            **({} if order == "batch" else {"transit": traffic.topic(order, "transit")}),
            "input_commands": ["destroy-node", "release"] if traffic.in_input else [],
        }
        for order in orders
    }


def prepare(traffic, folder, **service):
    """A service of these pipelines alone."""
    return write_config(folder, traffic.bootstrap, pipelines(traffic), **service)


def judge(traffic, figures):
    """Every multicast and every destination is accounted for; ``figures``: of `sequencer status`."""
    for order in traffic.orders:
        mine = figures[order]
        assert mine["in"] == traffic.sent[order] + traffic.answers[order]
        assert mine["rejected"].get("bad-destination", 0) == traffic.bad[order]
        lost = sum(n for reason, n in mine["rejected"].items() if reason != "bad-destination")
        gone = mine["undelivered"] + lost  # who had a destroyed node as the only destination
        assert (
            mine["delivered"] + gone
            == traffic.deliveries[order] + traffic.answers_deliveries[order]
        )
        assert mine["held"] == mine["transit"] == mine["blocked"] == 0
