"""Channels, groups and multicasts in one service: traffic, and what is killed, on a cluster."""

import os
import random
import signal
import uuid

from tests.cluster import ARCHIVE
from tests.faults.channels import some_messages
from tests.kafka_helpers import Record, create_topics, produce, until
from tests.service_helpers import Service, called, channel_topics, status, verify, write_config

LIMIT_S = 400

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

    def through(self, kill, count=20):
        """Send, run until every pipeline delivered some, ``kill`` something.

        Where that was not the service itself, it has to take what is sent then, and to stop.
        """
        before = self.delivered() if status(self.config) else {}
        self.send(count)
        with Service(self.config) as service:
            service.until(lambda: self.moved_since(before), LIMIT_S)
            kill(service)
            if service.poll() is None:
                self.send(count)
                self._finish(service)

    def finish(self):
        """Run until all is done; judged from the topics."""
        with Service(self.config) as service:
            self._finish(service)
        self.judge()

    def judge(self):
        """What `sequencer verify` says."""
        code, said = verify(self.config)
        assert code == 0, said

    def _finish(self, service):
        service.until(self.done, LIMIT_S)
        assert service.stop() == 0, service.said()


def packed(cluster, config):
    """The archive of `sequencer pack`, made once."""
    archive = cluster.folder / ARCHIVE
    if not archive.exists():
        code, out, err = called("pack", config, "-o", archive)
        assert code == 0, err
        assert f"{archive}#workers" in out
    return archive


def kill_executor(cluster):
    """kill -9 of one executor; returns when it is gone."""
    (pid, *_) = [each for worker in cluster.workers for each in worker.executors()]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not any(pid in worker.executors() for worker in cluster.workers))


def kill_worker(cluster):
    """kill -9 of one worker with its executors; another one takes its place."""
    cluster.workers.pop(0).kill()
    cluster.add_worker()


def kill_service(service):
    """kill -9 of the service: driver and JVM."""
    service.kill()
