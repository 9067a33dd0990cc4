"""What users send while faults come, and when deliveries arrive."""

import json
import random
import threading
import time
import uuid
from collections import deque
from contextlib import contextmanager

from confluent_kafka import Consumer

from tests.faults import groups, multicasts
from tests.faults.channels import some_messages
from tests.kafka_helpers import Record, create_topics, produce
from tests.service_helpers import channel_topics, write_config

NAMES = ("channel", "group", "network", "batch", "clock", "counter")
"""Pipelines: channels, groups by the batch and on a network, multicasts by their orders."""
MEMBERS = {"G0": ["A", "B", "C"], "G1": ["B", "C", "D"], "G2": ["A", "D"]}
TURN_SECONDS = 0.5
COMMANDS_EVERY = 6
"""Turns between two commands of a pipeline."""
SOME = {"channel": 2, "groups": 20, "multicasts": 5}
"""Of each channel, and of each pipeline, in a turn."""
WAITING_BYTES = 40_000
LAST_DELIVERIES = 300


class Traffic:
    """Sends to all pipelines in turns, in a thread; a context manager, which stops it.

    The service finds Kafka at ``bootstrap``, users at the broker's own address.
    """

    def __init__(self, broker, folder, names, seed, bootstrap, **service):
        self.bootstrap, self.names = broker.bootstrap, names
        self.rng = random.Random(seed)
        prefix = f"chaos-{uuid.uuid4().hex[:8]}."
        wanted = [name for name in names if name in ("group", "network")]
        orders = [name for name in names if name in ("batch", "clock", "counter")]
        members = {name: {group: [*some] for group, some in MEMBERS.items()} for name in wanted}
        self.groups = groups.Traffic(broker, prefix, members, seed)
        self.multicasts = multicasts.Traffic(broker, prefix, orders, seed)
        made = groups.pipelines(broker, prefix, members, ["network"]) if wanted else {}
        made |= multicasts.pipelines(self.multicasts) if orders else {}
        if "channel" in names:
            made["channel"] = channel_topics(f"{prefix}channel.")
            topics = [made["channel"][role] for role in ("input", "output", "commands")]
            create_topics(self.bootstrap, dict(zip(topics, (2, 4, 1), strict=True)))
        self.pipelines = made
        self.labels = self.sent_to_channels = self.turns = 0
        self.failure = None
        self.turning = threading.Lock()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._send, daemon=True)
        self.config = write_config(folder, bootstrap, made, **service)

    def __enter__(self):
        self._wait_for_label([1, 2, 3])
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Send no more, but the label that the others of its channel wait for."""
        if not self.stopping.is_set():
            self.stopping.set()
            self.thread.join()
            self._wait_for_label([0])
        assert self.failure is None, self.failure

    @contextmanager
    def silent(self):
        """Users send nothing inside."""
        with self.turning:
            yield

    @contextmanager
    def heard(self):
        """Within `silent`: they do."""
        self.turning.release()
        try:
            yield
        finally:
            self.turning.acquire()

    def sent(self):
        """Records by pipeline."""
        counts = {**self.groups.sent, **self.multicasts.sent, "channel": self.sent_to_channels}
        return {name: counts[name] for name in self.names}

    def _send(self):
        try:
            while not self.stopping.wait(TURN_SECONDS):
                with self.turning:
                    self._turn()
        except Exception as failure:  # noqa: BLE001  (said by __exit__)
            self.failure = failure

    def _turn(self):
        """Commands come first: who has read the records behind them has read them, too."""
        self.turns += 1
        commands = self.turns % COMMANDS_EVERY == 0
        for name in self.groups.groups:
            if commands:
                self.groups.command(name)
            self.groups.publish(name, SOME["groups"])
        if self.multicasts.orders:
            if commands:
                node = self.rng.choice(multicasts.NODES)
                op = self.rng.choice(["create-node", "release", "destroy-node"])
                self.multicasts.command(op, node)
            self.multicasts.multicast(SOME["multicasts"])
        if "channel" in self.names:
            self._to_channels(commands=commands)

    def _wait_for_label(self, labels):
        """Send messages of one channel, so large that those which wait become a file."""
        if "channel" in self.names:
            some = [
                Record(b"waits", self.rng.randbytes(WAITING_BYTES), [("label", b"%d" % label)])
                for label in labels
            ]
            produce(self.bootstrap, self.pipelines["channel"]["input"], some)
            self.sent_to_channels += len(some)

    def _to_channels(self, *, commands):
        topics = self.pipelines["channel"]
        if commands:
            value = {"op": "skip", "blocked": "1 h", "id": f"c{self.turns}"}
            produce(self.bootstrap, topics["commands"], [Record(None, json.dumps(value).encode())])
        some = some_messages(self.labels, SOME["channel"], self.rng)
        produce(self.bootstrap, topics["input"], some)
        self.labels += SOME["channel"]
        self.sent_to_channels += len(some)


class Deliveries:
    """Reads all outputs, in a thread; knows when the first came of what was sent since a moment.

    And how long the last deliveries took.
    """

    def __init__(self, traffic):
        self.names = {each["output"]: name for name, each in traffic.pipelines.items()}
        self.consumer = Consumer(
            {
                "bootstrap.servers": traffic.bootstrap,
                "group.id": f"{traffic.config.parent.name}-{uuid.uuid4().hex[:8]}",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        self.watched = 0, {}
        self.took_ms = deque(maxlen=LAST_DELIVERIES)
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self):
        self.consumer.subscribe([*self.names])
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        self.consumer.close()

    def watch(self):
        """Begin to wait for deliveries of what is sent from now on."""
        self.watched = time.time() * 1000, {}

    def first(self):
        """When each pipeline delivered the first of it."""
        return dict(self.watched[1])

    def taken_ms(self):
        """How long each of the last deliveries took, from its sending."""
        return [*self.took_ms]

    def missing(self):
        """Pipelines that delivered nothing of it yet."""
        return set(self.names.values()) - set(self.first())

    def _read(self):
        while not self.stopping.is_set():
            some = self.consumer.consume(1000, 0.1)
            since_ms, first = self.watched
            for message in some:
                if message.error():
                    continue
                self.took_ms.append(time.time() * 1000 - message.timestamp()[1])
                if message.timestamp()[1] >= since_ms:
                    first.setdefault(self.names[message.topic()], time.time())
