"""Groups of many memberships, commands and reactions to deliveries: traffic for tests that kill."""

import json
import random

import numpy as np

from sequencer.simulation.workload import names, occupied_groups, zipf_groups
from streaming.demo.stage import cause
from tests.kafka_helpers import Record, create_topics, produce, read_all

SENDERS = [b"p%d" % n for n in range(12)]
ANSWERS_MAX = 2_000
OPERATIONS = ("add", "set", "set", "remove", "join", "join", "leave")


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
    """Publishes with unique values, commands that change groups, reactions to deliveries.

    ``in_input``: every other command is a record of the input.
    """

    def __init__(self, broker, prefix, groups, seed, *, in_input=False):
        self.bootstrap, self.prefix, self.groups = broker.bootstrap, prefix, groups
        self.in_input = in_input
        self.rng = random.Random(seed)
        self.count = 0
        self.sent = dict.fromkeys(groups, 0)
        self.commands = dict.fromkeys(groups, 0)
        self.answers = dict.fromkeys(groups, 0)
        self.rng_of_answers = random.Random(seed)

    @property
    def outputs(self):
        return [f"{self.prefix}{name}.out" for name in self.groups]

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
        op = self.rng.choice(OPERATIONS)
        value = {"op": op, "group": group, "id": f"c{self.commands[name]}"}
        if op in ("join", "leave"):
            value["member"] = self.rng.choice(everyone)
        else:
            value["members"] = self.rng.sample(everyone, self.rng.randint(1, min(8, len(everyone))))
        if op != "add" and self.rng.random() < 0.2:
            value["if_version"] = self.rng.randint(1, 4)
        value |= {"by": "ann", "why": f"change {self.commands[name]}"}
        if self.commands[name] % 2 and self.in_input:
            op = [("op", value.pop("op").encode())]
            record = Record(SENDERS[0], json.dumps(value).encode(), op, partition=0)
            produce(self.bootstrap, f"{self.prefix}{name}.in", [record])
        else:
            record = Record(None, json.dumps(value).encode(), partition=0)
            produce(self.bootstrap, f"{self.prefix}{name}.commands", [record])
        self.commands[name] += 1

    def answer(self, message):
        """A subscriber answers something of what it got, to a group of its own."""
        if not (message.value() or b"").startswith(b"m") or self.rng_of_answers.random() >= 0.02:
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


def pipelines(broker, prefix, groups, network=(), **more):
    """A pipeline for each membership, those of ``network`` so; their topics, but for outputs of
    what is not there, are made."""
    made = {}
    for name, mine in groups.items():
        roles = ("output", "rejects", "events", "commands", "transit")
        topics = {role: f"{prefix}{name}.{'out' if role == 'output' else role}" for role in roles}
        made[name] = {"discipline": "group", "input": f"{prefix}{name}.in", **topics, **more}
        made[name]["groups"] = mine
        made[name]["sequencing"] = "network" if name in network else "batch"
    create_topics(broker.bootstrap, {f"{prefix}{name}.in": 2 for name in groups})
    create_topics(broker.bootstrap, {f"{prefix}{name}.commands": 1 for name in groups})
    create_topics(broker.bootstrap, {f"{prefix}{name}.out": 4 for name in groups})
    return made


def judge(traffic, figures):
    """All was worked through; a reaction comes after what it reacts to, which `verify` cannot know.

    ``figures``: of `sequencer status`.
    """
    reacted = 0
    for name in traffic.groups:
        assert figures[name]["in"] == traffic.sent[name] + traffic.answers[name], name
        assert figures[name]["held"] == figures[name]["transit"] == 0, name
        got = {}
        for record in read_all(traffic.bootstrap, f"{traffic.prefix}{name}.out", limit_s=300):
            seen = got.setdefault(record.key, {})
            if record.value is None:
                continue  # a notice
            assert record.value not in seen, "once"
            seen[record.value] = len(seen)
        for seen in got.values():
            for value, at in seen.items():
                if value.startswith(b"re:"):
                    cause = value.rpartition(b":")[2]
                    assert seen.get(cause, -1) < at, f"{name}: {value} before its cause"
                    reacted += cause in seen
    assert reacted, "some got both a reaction and its cause"
