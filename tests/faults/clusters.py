"""Channels, groups and multicasts in one service: traffic for tests on a cluster."""

import random
import uuid

from tests.faults.channels import some_messages
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import channel_topics, status, write_config

GROUPS = {"G0": ["A", "B", "C"], "G1": ["B", "C", "D"], "G2": ["A", "D"]}
SENDERS = [b"s%d" % n for n in range(6)]
PEERS = [b"p%02d" % n for n in range(30)]
KEYS = [b"k%02d" % n for n in range(10)]


class Traffic:
    """Counts what it sends; :meth:`done` says when the service has taken all of it."""

    def __init__(self, broker, folder, **service):
        self.bootstrap, self.rng = broker.bootstrap, random.Random(4)
        self.prefix = f"cluster-{uuid.uuid4().hex[:8]}."
        self.labels = 0
        self.sent = {"channels": 0, "groups": 0, "multicasts": 0}
        topics = {name: channel_topics(f"{self.prefix}{name}.") for name in self.sent}
        pipelines = {
            "channels": topics["channels"],
            "groups": {"discipline": "group", "groups": GROUPS, **topics["groups"]},
            "multicasts": {"discipline": "multicast", **topics["multicasts"]},
        }
        create_topics(self.bootstrap, {each["input"]: 2 for each in topics.values()})
        self.inputs = {name: each["input"] for name, each in topics.items()}
        self.config = write_config(folder, broker.bootstrap, pipelines, **service)

    def send(self, count):
        """So many labels of each channel, and ten times as many messages and multicasts."""
        self._send("channels", some_messages(self.labels, count, self.rng, KEYS))
        self.labels += count
        senders = [self.rng.randrange(len(SENDERS)) for _ in range(10 * count)]
        self._send(
            "groups",
            [
                Record(SENDERS[n], b"m", [("group", self.rng.choice(list(GROUPS)).encode())], n % 2)
                for n in senders
            ],
        )
        self._send(
            "multicasts",
            [
                Record(PEERS[n], b"m", [("to", b",".join(self.rng.sample(PEERS, 4)))], n % 2)
                for n in senders
            ],
        )

    def _send(self, name, records):
        produce(self.bootstrap, self.inputs[name], records)
        self.sent[name] += len(records)

    def done(self):
        """Whether all that was sent is accounted for, and nothing waits."""
        figures = status(self.config)
        return all(
            figures[name]["in"] == count and figures[name]["held"] == 0
            for name, count in self.sent.items()
        )

    def delivered(self):
        """Deliveries of each pipeline so far."""
        return {name: each["delivered"] for name, each in status(self.config).items()}

    def moved_since(self, before):
        """Whether every pipeline delivered more; nothing of one is 0."""
        return all(count > before.get(name, 0) for name, count in self.delivered().items())
