"""Groups through kill -9: many memberships in one service, commands and reactions meanwhile.

Judged by `sequencer verify` from the topics, and here once more for what it cannot know: a reaction
comes after what it reacts to.
"""

import json
import random
import uuid

import numpy as np
import pytest

from sequencer.simulation.workload import names, occupied_groups, zipf_groups
from streaming.demo.stage import CAUSE, cause
from tests.faults.kills import Reactor, through_kills
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import run_once, status, verify, write_config

SENDERS = [b"p%d" % n for n in range(12)]
ANSWERS_MAX = 2_000


def memberships():
    """Groups by pipeline: the shapes that a membership can have."""
    rng = np.random.default_rng(5)
    subscribers = names("s", 128)
    shapes = {
        "zipf32": zipf_groups(rng, subscribers, 32),
        "zipf64": zipf_groups(rng, subscribers, 64),
        "sparse": occupied_groups(rng, subscribers, 32, 0.15),
        "dense": occupied_groups(rng, names("s", 40), 16, 0.95),
        "equal": {f"E{n}": frozenset("ABCD") for n in range(4)},
        "nested": {f"N{n}": frozenset("ABCDEFGH"[: n + 1]) for n in range(8)},
        "apart": {f"D{n}": frozenset({f"x{n}", f"y{n}"}) for n in range(6)},
        "alone": {f"S{n}": frozenset({"A"}) for n in range(3)},
        "triple": {"T0": frozenset("ABCD"), "T1": frozenset("BCDE"), "T2": frozenset("CDEA")},
    }
    return {
        name: {group: sorted(some) for group, some in groups.items() if some}
        for name, groups in shapes.items()
    }


class Traffic:
    """Publishes with unique values, commands that change groups, reactions to deliveries."""

    def __init__(self, broker, prefix, groups, seed):
        self.bootstrap, self.prefix, self.groups = broker.bootstrap, prefix, groups
        self.rng = random.Random(seed)
        self.count = 0
        self.sent = dict.fromkeys(groups, 0)
        self.commands = dict.fromkeys(groups, 0)
        self.answers = dict.fromkeys(groups, 0)
        self.rng_of_answers = random.Random(seed)

    def publish(self, name, count):
        """In turn to random groups, now and then one that is not there."""
        some = []
        known = sorted(self.groups[name])
        for _ in range(count):
            group = self.rng.choice(known) if self.rng.random() < 0.99 else "nobody"
            sender = self.rng.choice(SENDERS)
            partition = SENDERS.index(sender) % 2
            header = [("group", group.encode())]
            some.append(Record(sender, b"m%d" % self.count, header, partition))
            self.count += 1
        produce(self.bootstrap, f"{self.prefix}{name}.in", some)
        self.sent[name] += count

    def command(self, name):
        """Somebody joins or leaves, a group comes or goes."""
        changing = [*sorted(self.groups[name])[1::2], f"new{self.rng.randrange(3)}"]
        group = self.rng.choice(changing)
        everyone = sorted({each for some in self.groups[name].values() for each in some})
        members = self.rng.sample(everyone, self.rng.randint(1, min(8, len(everyone))))
        value = {"op": self.rng.choice(["add", "set", "set", "remove"]), "group": group}
        value |= {"members": members, "id": f"c{self.commands[name]}"}
        record = Record(None, json.dumps(value).encode(), partition=0)
        produce(self.bootstrap, f"{self.prefix}{name}.commands", [record])
        self.commands[name] += 1

    def answer(self, message):
        """A subscriber answers something of what it got, to a group of its own."""
        if not message.value().startswith(b"m") or self.rng_of_answers.random() >= 0.02:
            return None
        name = message.topic().removeprefix(self.prefix).removesuffix(".out")
        key = message.key()
        steady = sorted(self.groups[name])[::2]  # who has left may hear less than others
        mine = [g for g in steady if key.decode() in self.groups[name][g]]
        if not mine or self.answers[name] >= ANSWERS_MAX:
            return None
        self.answers[name] += 1
        value = b"re:%s:%s" % (key, message.value())
        headers = [("group", self.rng_of_answers.choice(mine).encode()), cause(message)]
        return f"{self.prefix}{name}.in", key, value, headers, 0


def prepare(broker, prefix, folder, groups, network=(), **service):
    pipelines = {}
    for name, mine in groups.items():
        roles = ("output", "rejects", "events", "commands", "transit")
        topics = {role: f"{prefix}{name}.{'out' if role == 'output' else role}" for role in roles}
        pipelines[name] = {"discipline": "group", "input": f"{prefix}{name}.in", **topics}
        pipelines[name]["groups"] = mine
        pipelines[name]["sequencing"] = "network" if name in network else "batch"
    create_topics(broker.bootstrap, {f"{prefix}{name}.in": 2 for name in groups})
    create_topics(broker.bootstrap, {f"{prefix}{name}.commands": 1 for name in groups})
    create_topics(broker.bootstrap, {f"{prefix}{name}.out": 4 for name in groups})
    return write_config(folder, broker.bootstrap, pipelines, **service)


def judge(bootstrap, prefix, config, traffic):
    code, said = verify(config, "--causes", CAUSE)
    assert code == 0, said
    figures = status(config)
    reacted = 0
    for name in traffic.groups:
        assert figures[name]["in"] == traffic.sent[name] + traffic.answers[name], name
        assert figures[name]["held"] == figures[name]["transit"] == 0, name
        got = {}
        for record in read_all(bootstrap, f"{prefix}{name}.out", limit_s=300):
            seen = got.setdefault(record.key, {})
            assert record.value not in seen, "once"
            seen[record.value] = len(seen)
        for seen in got.values():
            for value, at in seen.items():
                if value.startswith(b"re:"):
                    cause = value.rpartition(b":")[2]
                    assert seen.get(cause, -1) < at, f"{name}: {value} before its cause"
                    reacted += cause in seen
    assert reacted, "some got both a reaction and its cause"
    return figures


def kill_at_random(broker, folder, groups, *, kills, messages, seconds, seed=1, network=()):
    prefix = f"kill-groups-{uuid.uuid4().hex[:8]}."
    config = prepare(broker, prefix, folder, groups, network, batch_records_max=5_000)
    traffic = Traffic(broker, prefix, groups, seed)
    rng = random.Random(seed)

    def turn(number):
        for name in groups:
            traffic.publish(name, messages // len(groups) // (kills + 1))
            if number % 2 or rng.random() < 0.5:
                traffic.command(name)

    topics = [f"{prefix}{name}.out" for name in groups]
    with Reactor(broker.bootstrap, topics, traffic.answer):
        through_kills(config, turn, kills=kills, seconds=seconds, seed=seed)
    run_once(config)
    return judge(broker.bootstrap, prefix, config, traffic)


@pytest.mark.timeout(1500)
def test_kill_at_random_moments(broker, tmp_path):
    every = memberships()
    groups = {name: every[name] for name in ("zipf32", "triple")}
    network = ("triple",)
    kill_at_random(broker, tmp_path, groups, kills=2, messages=4_000, seconds=6, network=network)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_twenty_kills_during_200_000_publishes(broker, tmp_path):
    figures = kill_at_random(
        broker,
        tmp_path,
        memberships(),
        kills=20,
        messages=200_000,
        seconds=20,
        network=("sparse", "nested"),
    )
    assert sum(each["in"] for each in figures.values()) >= 200_000 * 0.99
