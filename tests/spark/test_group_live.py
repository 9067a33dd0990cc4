"""Figure 1 of the paper through the running service: groups come and go while it works."""

import json
import signal
from functools import partial

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import WarmService, called_json, status, verify, write_config

pytestmark = pytest.mark.timeout(600)
MEMBERS = {"G0": "ABC", "G1": "BC", "G2": "ABD", "G3": "BCD", "G4": "BD"}
STEPS = [
    (None, ["G0", "G1", "G2"], {"G0+G1": "BC", "G0+G2": "AB"}),
    (
        {"op": "add", "group": "G3", "members": list("BCD"), "id": "b"},
        ["G0", "G1", "G2", "G3"],
        {"G0+G1": "BC", "G0+G2": "AB", "G0+G3": "BC", "G1+G3": "BC", "G2+G3": "BD"},
    ),
    (
        {"op": "add", "group": "G4", "members": list("BD"), "id": "c"},
        ["G0", "G1", "G2", "G3", "G4"],
        {
            "G0+G1": "BC",
            "G0+G2": "AB",
            "G0+G3": "BC",
            "G1+G3": "BC",
            "G2+G3": "BD",
            "G2+G4": "BD",
            "G3+G4": "BD",
        },
    ),
    (
        {"op": "remove", "group": "G0", "id": "d"},
        ["G1", "G2", "G3", "G4"],
        {"G1+G3": "BC", "G2+G3": "BD", "G2+G4": "BD", "G3+G4": "BD"},
    ),
]


def first_offsets(bootstrap, topic):
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "looks"})
    try:
        partitions = consumer.list_topics(topic, 30).topics[topic].partitions
        places = [TopicPartition(topic, partition) for partition in partitions]
        return [consumer.get_watermark_offsets(place, 30)[0] for place in places]
    finally:
        consumer.close()


class Figure1:
    """A pipeline that begins with three groups of the figure; named by how it sequences."""

    def __init__(self, broker, prefix, sequencing):
        self.bootstrap, self.name = broker.bootstrap, sequencing
        roles = ("input", "output", "rejects", "events", "commands", "transit")
        self.topics = {role: f"{prefix}{sequencing}.{role}" for role in roles}
        create_topics(self.bootstrap, {self.topics["input"]: 2, self.topics["commands"]: 1})
        self.sent = self.expected = 0

    def pipeline(self):
        groups = {name: list(MEMBERS[name]) for name in ("G0", "G1", "G2")}
        return {"discipline": "group", "sequencing": self.name, "groups": groups, **self.topics}

    def command(self, value):
        produce(self.bootstrap, self.topics["commands"], [Record(None, json.dumps(value).encode())])

    def has_answered(self, own):
        events = [json.loads(r.value) for r in read_all(self.bootstrap, self.topics["events"])]
        return own in [e.get("command") for e in events]

    def send(self, step, groups):
        """Ten messages to each of the groups, in turn."""
        some = [
            Record(b"p%d" % (n % 3), b"%d:%d" % (step, n), [("group", group.encode())])
            for n, group in enumerate(groups * 10)
        ]
        produce(self.bootstrap, self.topics["input"], some)
        self.sent += len(some)
        self.expected += 10 * sum(len(MEMBERS[group]) for group in groups)

    def is_through(self, config):
        return status(config)[self.name]["delivered"] == self.expected

    def overlaps(self, step):
        """Who gets the messages of a step with a number of which overlap."""
        seen = {}
        for record in read_all(self.bootstrap, self.topics["output"]):
            if record.value.startswith(b"%d:" % step):
                for first, second, _ in json.loads(record.header("stamps") or b"[]"):
                    seen.setdefault(f"{first}+{second}", set()).add(record.key.decode())
        return {pair: "".join(sorted(who)) for pair, who in seen.items()}

    def judge(self, config):
        figures = status(config)[self.name]
        assert figures["in"] == self.sent + 1
        assert figures["held"] == figures["transit"] == 0
        graph = called_json("graph", config, "--running", "--pipeline", self.name)["groups"]
        assert {name: "".join(each["members"]) for name, each in graph.items()} == {
            name: MEMBERS[name] for name in ("G1", "G2", "G3", "G4")
        }
        assert {name: each["messages"] for name, each in graph.items()} == {
            "G1": 40, "G2": 40, "G3": 30, "G4": 20,
        }  # fmt: skip


def test_figure_1_step_by_step(broker, topic_prefix, tmp_path):
    both = [Figure1(broker, topic_prefix, sequencing) for sequencing in ("batch", "network")]
    config = write_config(tmp_path, broker.bootstrap, {each.name: each.pipeline() for each in both})
    with WarmService(config) as service:
        for step, (command, groups, overlaps) in enumerate(STEPS):
            for each in both if command is not None else ():
                each.command(command)
                service.until(partial(each.has_answered, command["id"]))
            for each in both:
                each.send(step, groups)
            for each in both:
                service.until(partial(each.is_through, config))
                assert each.overlaps(step) == overlaps, each.name
        late = [Record(b"p0", b"too late", [("group", b"G0")])]
        for each in both:
            produce(broker.bootstrap, each.topics["input"], late)
        rejected = {each.name: {"removed-group": 1} for each in both}
        service.until(lambda: {n: f["rejected"] for n, f in status(config).items()} == rejected)
        transit = both[1].topics["transit"]  # old chunks are deleted every few seconds
        service.until(lambda: any(first_offsets(broker.bootstrap, transit)))
        assert service.stop(signal.SIGTERM) == 0
    code, said = verify(config)
    assert code == 0, said
    for each in both:
        each.judge(config)
