"""A service of all disciplines, with its traffic: what must come of it is judged from the topics.

With notices, commands among the messages, progress marks, and barriers.
"""

import json
import random
import uuid
from contextlib import contextmanager

from streaming import MulticastSender, OrderedConsumer
from streaming.clients.barriers import BARRIER
from streaming.demo.stage import CAUSE
from tests.faults import channels, groups, multicasts
from tests.faults.kills import Reactor, wait_at_random
from tests.kafka_helpers import produce, read_all
from tests.service_helpers import (
    Service,
    called_json,
    channel_topics,
    status,
    verify,
    write_config,
)

SEED = 1
PER_KEY, PUBLISHED, MULTICAST = 30, 100, 40
"""New in each turn: messages of each channel; of each pipeline of groups; of each of multicasts.

Enough for a service to be in the middle of them when it ends: a multicast makes a hundred records.
The long forms are `test_kill_groups.py` and `test_kill_multicast.py`.
"""
HANDLES = 0.3
"""The share of multicasts that pass a handle on: each node has holders when it is destroyed."""


SHORT = (("zipf32", "triple"), ("batch", "clock"))
LONG = (("zipf32", "sparse", "triple", "nested"), ("batch", "clock", "counter"))
"""Pipelines of groups and orders of multicasts."""
NETWORK = ("triple", "nested")
OPERATIONS = ["add", "set", "remove", "join", "leave"]
EVE, DAN = multicasts.PEERS[:2]
"""Dan sends Eve news; then she sends a message to herself, behind them."""


class Everything:
    """A service with pipelines of groups, of multicasts and one of channels; its traffic."""

    def __init__(self, broker, folder, memberships, orders, seed=SEED):
        self.bootstrap = broker.bootstrap
        self.prefix = f"all-{uuid.uuid4().hex[:8]}."
        self.rng = random.Random(seed)
        self.sent = self.turns = 0
        every = groups.memberships()
        mine = {name: every[name] for name in memberships}
        self.groups = groups.Traffic(broker, self.prefix, mine, seed, in_input=True)
        self.barriers = []
        self.multicasts = multicasts.Traffic(
            broker, self.prefix, orders, seed, HANDLES, in_input=True
        )
        changes = {"notices": True, "input_commands": OPERATIONS}
        made = {
            "p": channel_topics(self.prefix),
            **groups.pipelines(broker, self.prefix, mine, NETWORK, **changes),
            **multicasts.pipelines(self.multicasts),
        }
        for name, pipeline in made.items():
            pipeline |= {"origin": True, "progress": f"{self.prefix}{name}.progress"}
        self.pipelines = made
        channels.make_topics(broker, self.prefix)
        self.config = write_config(folder, broker.bootstrap, made, batch_records_max=500)
        for node in multicasts.NODES:
            self.multicasts.command("create-node", node)

    def has_nodes(self):
        """Whether the nodes are there: who needs one waits for the answer."""
        topics = [self.multicasts.topic(order, "events") for order in self.multicasts.orders]
        answers = [len(read_all(self.bootstrap, topic)) for topic in topics]
        return min(answers) >= len(multicasts.NODES)

    def turn(self):
        """New messages and commands for all pipelines."""
        first = self.turns * PER_KEY
        batch = channels.some_messages(first, PER_KEY, self.rng)
        produce(self.bootstrap, f"{self.prefix}in", batch)
        self.sent += len(batch)
        for name in self.groups.groups:
            self.groups.publish(name, PUBLISHED)
            self.groups.command(name)
        self.multicasts.multicast(MULTICAST)
        self.multicasts.release(3)
        self.multicasts.destroy()
        self.to_oneself()
        self.turns += 1

    def to_oneself(self):
        """Eve sends a barrier by the batch; it is a message like any other, in each partition."""
        traffic, where = self.multicasts, {"bootstrap.servers": self.bootstrap}
        topic = traffic.topic("batch", "in")
        with MulticastSender(where, topic, DAN) as dan:
            dan.send([EVE], b"news %d" % len(self.barriers))
        with MulticastSender(where, topic, EVE) as eve:
            self.barriers.append(eve.barrier())
        traffic.sent["batch"] += 1 + multicasts.PARTITIONS
        traffic.deliveries["batch"] += 1 + multicasts.PARTITIONS

    def judge(self):
        code, said = verify(self.config, "--causes", CAUSE)
        assert code == 0, said
        figures = status(self.config)
        count = self.turns * PER_KEY
        channels.judge(self.bootstrap, self.prefix, count, self.sent, figures["p"])
        groups.judge(self.groups, figures)
        multicasts.judge(self.multicasts, figures)
        assert sum(self.multicasts.answers.values()) > 1, "nobody answered"
        assert figures["batch"]["notices"] > 0
        assert all(figures[name]["commands"] > 0 for name in (*self.groups.groups, "clock"))
        for topic in (f"{self.prefix}out", *self.groups.outputs, *self.multicasts.outputs):
            self.follow(topic)
        self.follow_a_reject(f"{self.prefix}{next(iter(self.groups.groups))}.rejects")
        self.judge_marks()
        self.judge_barriers()

    def follow(self, output):
        """`why` finds the input of some deliveries, and all that became of it."""
        by_origin = {}
        for each in read_all(self.bootstrap, output):
            origin = each.header("origin")
            if origin is not None:  # none of a notice
                by_origin.setdefault(origin.decode(), set()).add(place_of(each))
        for origin in self.rng.sample(sorted(by_origin), 2):
            life = called_json("why", min(by_origin[origin]), self.config)
            assert (life["found_by"], life["input"]["place"]) == ("origin", origin)
            (one,) = life["pipelines"]
            assert (one["state"], one["reject"]) == ("delivered", None)
            assert {each["place"] for each in one["deliveries"]} == by_origin[origin]

    def follow_a_reject(self, rejects):
        reject = read_all(self.bootstrap, rejects)[-1]
        life = called_json("why", place_of(reject), self.config)
        (one,) = life["pipelines"]
        assert (life["found_by"], one["state"]) == ("reject headers", "rejected")
        assert one["reject"]["place"] == place_of(reject)
        assert one["reject"]["reject-reason"].encode() == reject.header("reject-reason")

    def judge_marks(self):
        """The last ones tell of all inputs; what they say was judged by `verify`."""
        for name, pipeline in self.pipelines.items():
            marks = read_all(self.bootstrap, pipeline["progress"])
            last = {each.key: json.loads(each.value)["inputs"] for each in marks}
            topic = pipeline["input"]
            count = len(read_all(self.bootstrap, topic))
            assert last, name
            for inputs in last.values():
                assert sum(inputs[topic].values()) == count, name

    def judge_barriers(self):
        """When one has passed, all has been read that lay before its copies."""
        sent = read_all(self.bootstrap, self.multicasts.topic("batch", "in"))
        output, group = self.multicasts.topic("batch", "output"), f"{self.prefix}eve"
        where, seen, passed = {"bootstrap.servers": self.bootstrap}, [], {}
        with OrderedConsumer(
            where, [output], discipline="multicast", group=group, keys=[EVE]
        ) as reader:
            while (each := reader.poll(60 if len(passed) < len(self.barriers) else 1)) is not None:
                copies = [barrier.take(each) for barrier in self.barriers]
                seen += [] if any(copies) or not each.value else [each.value]
                for barrier in self.barriers:
                    if barrier.passed:
                        passed.setdefault(barrier.token, len(seen))
        assert [*passed] == [barrier.token for barrier in self.barriers]
        for turn, (token, count) in enumerate(passed.items()):
            ends = {r.partition: r.offset for r in sent if r.header(BARRIER) == token}
            before = {r.value for r in sent if r.offset < ends[r.partition]}
            assert len(ends) == multicasts.PARTITIONS
            assert before.isdisjoint(seen[count:])
            assert b"news %d" % turn in seen[:count]


def through_ends(every, ends, rng):
    """The service starts, and ends in each of these ways; before each start there is new input."""
    for end in ends:
        every.turn()
        with Service(every.config) as service:
            wait_at_random(service, rng, seconds=2)
            end(service)
    every.turn()


def place_of(record):
    return f"{record.topic}/{record.partition}@{record.offset}"


@contextmanager
def answered(every):
    """Readers answer some of what they read."""
    with (
        Reactor(every.bootstrap, every.groups.outputs, every.groups.answer),
        Reactor(every.bootstrap, every.multicasts.outputs, every.multicasts.answer),
    ):
        yield
