"""One service of all disciplines that ends in many ways while clients go on, and is started again.

Stopped, without its driver, killed as a whole: then it finishes, and is judged from the topics.
"""

import random
import uuid

import pytest

from streaming.demo.stage import CAUSE
from tests.faults import channels, groups, multicasts
from tests.faults.kills import Reactor, delivered, kill_driver, stop_quietly, wait_at_random
from tests.kafka_helpers import produce, read_all
from tests.service_helpers import (
    Service,
    called_json,
    channel_topics,
    run_once,
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


class Everything:
    """A service with two pipelines of groups, two of multicasts and one of channels; its traffic."""

    def __init__(self, broker, folder):
        self.bootstrap = broker.bootstrap
        self.prefix = f"all-{uuid.uuid4().hex[:8]}."
        self.rng = random.Random(SEED)
        self.sent = self.turns = 0
        every = groups.memberships()
        mine = {name: every[name] for name in ("zipf32", "triple")}
        self.groups = groups.Traffic(broker, self.prefix, mine, SEED, in_input=True)
        orders = ["batch", "clock"]
        self.multicasts = multicasts.Traffic(
            broker, self.prefix, orders, SEED, HANDLES, in_input=True
        )
        changes = {"notices": True, "input_commands": ["add", "set", "remove"]}
        made = {
            "p": channel_topics(self.prefix),
            **groups.pipelines(broker, self.prefix, mine, network=("triple",), **changes),
            **multicasts.pipelines(self.multicasts),
        }
        made = {name: {**each, "origin": True} for name, each in made.items()}
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
        self.turns += 1

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


def place_of(record):
    return f"{record.topic}/{record.partition}@{record.offset}"


@pytest.mark.timeout(1800)
def test_a_service_goes_on_after_every_end(broker, tmp_path):
    every = Everything(broker, tmp_path)
    config, rng = every.config, random.Random(SEED)
    with (
        Reactor(broker.bootstrap, every.groups.outputs, every.groups.answer),
        Reactor(broker.bootstrap, every.multicasts.outputs, every.multicasts.answer),
    ):
        with Service(config) as service:
            service.until(every.has_nodes)
            every.turn()
            service.until(lambda: all(delivered(config).values()))
            every.turn()
            assert stop_quietly(service, times=3) == 0, service.said()
            assert "Trying again" not in service.said()
        for end in (kill_driver, Service.kill):
            every.turn()
            with Service(config) as service:
                wait_at_random(service, rng, seconds=2)
                end(service)
        every.turn()
    run_once(config)
    every.judge()
