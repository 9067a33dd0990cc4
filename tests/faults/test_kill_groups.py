"""Groups through kill -9: many memberships in one service, commands and reactions meanwhile.

Judged by `sequencer verify` from the topics, and here once more for what it cannot know: a reaction
comes after what it reacts to.
"""

import json
import random
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer

from sequencer.simulation.workload import names, occupied_groups, zipf_groups
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import Service, run_once, status, write_config

SENDERS = [b"p%d" % n for n in range(12)]


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
        self.stopping = threading.Event()
        self.reactions = dict.fromkeys(groups, 0)
        self.reactor = threading.Thread(target=self.react, daemon=True)

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
        group = self.rng.choice([*sorted(self.groups[name]), f"new{self.rng.randrange(3)}"])
        everyone = sorted({each for some in self.groups[name].values() for each in some})
        members = self.rng.sample(everyone, self.rng.randint(1, min(8, len(everyone))))
        value = {"op": self.rng.choice(["add", "set", "set", "remove"]), "group": group}
        value |= {"members": members, "id": f"c{self.commands[name]}"}
        record = Record(None, json.dumps(value).encode(), partition=0)
        produce(self.bootstrap, f"{self.prefix}{name}.commands", [record])
        self.commands[name] += 1

    def react(self):
        """Subscribers answer some of what they got, to a group of theirs."""
        topics = [f"{self.prefix}{name}.out" for name in self.groups]
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"{self.prefix}reactor",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        consumer.subscribe(topics)
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        rng = random.Random(9)
        while not self.stopping.is_set():
            for message in consumer.consume(500, 0.2):
                if message.error() or not message.value().startswith(b"m"):
                    continue
                name = message.topic().removeprefix(self.prefix).removesuffix(".out")
                mine = [
                    g for g, some in self.groups[name].items() if message.key().decode() in some
                ]
                if mine and rng.random() < 0.02 and self.reactions[name] < 2000:
                    value = b"re:%s:%s" % (message.key(), message.value())
                    header = [("group", rng.choice(mine).encode())]
                    topic = f"{self.prefix}{name}.in"
                    producer.produce(topic, value, message.key(), partition=0, headers=header)
                    self.reactions[name] += 1
        assert producer.flush(60) == 0
        consumer.close()


def prepare(broker, prefix, folder, groups, **service):
    pipelines = {}
    for name, mine in groups.items():
        roles = ("output", "rejects", "events", "commands", "transit")
        topics = {role: f"{prefix}{name}.{'out' if role == 'output' else role}" for role in roles}
        pipelines[name] = {"discipline": "group", "input": f"{prefix}{name}.in", **topics}
        pipelines[name]["groups"] = mine
    create_topics(broker.bootstrap, {f"{prefix}{name}.in": 2 for name in groups})
    create_topics(broker.bootstrap, {f"{prefix}{name}.commands": 1 for name in groups})
    create_topics(broker.bootstrap, {f"{prefix}{name}.out": 4 for name in groups})
    return write_config(folder, broker.bootstrap, pipelines, **service)


def judge(bootstrap, prefix, config, traffic):
    said = subprocess.run(
        [sys.executable, "-m", "streaming.cli", "verify", str(config)],
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert said.returncode == 0, said.stdout + said.stderr
    figures = status(config)
    reacted = 0
    for name in traffic.groups:
        assert figures[name]["in"] == traffic.sent[name] + traffic.reactions[name], name
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


def kill_at_random(broker, folder, groups, *, kills, messages, seconds, seed=1):
    prefix = f"kill-groups-{uuid.uuid4().hex[:8]}."
    config = prepare(broker, prefix, folder, groups, batch_records_max=5_000)
    traffic = Traffic(broker, prefix, groups, seed)
    rng = random.Random(seed)
    traffic.reactor.start()
    try:
        for turn in range(kills + 1):
            for name in groups:
                traffic.publish(name, messages // len(groups) // (kills + 1))
                if turn % 2 or rng.random() < 0.5:
                    traffic.command(name)
            if turn == kills:
                break
            with Service(config) as service:
                before = {name: each["batch"] for name, each in status(config).items()}

                def moved(was=before):
                    return any(each["batch"] != was[n] for n, each in status(config).items())

                service.until(moved)
                time.sleep(rng.uniform(0, seconds))
                service.kill()
    finally:
        traffic.stopping.set()
        traffic.reactor.join(120)
    run_once(config)
    return judge(broker.bootstrap, prefix, config, traffic)


@pytest.mark.timeout(1500)
def test_kill_at_random_moments(broker, tmp_path):
    every = memberships()
    groups = {name: every[name] for name in ("zipf32", "triple")}
    kill_at_random(broker, tmp_path, groups, kills=2, messages=4_000, seconds=6)


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_twenty_kills_during_200_000_publishes(broker, tmp_path):
    figures = kill_at_random(
        broker, tmp_path, memberships(), kills=20, messages=200_000, seconds=20
    )
    assert sum(each["in"] for each in figures.values()) >= 200_000 * 0.99
