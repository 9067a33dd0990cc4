"""The service as users run it: from its start, or a kill -9, to the next delivery."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from harness import PARTITIONS, create

from streaming.config import load_config
from streaming.service.checkpoint import Checkpoint

ROLES = ("in", "out", "rejects", "events", "commands")
MESSAGES, CHANNELS = 1_000, 100
LIMIT_SECONDS = 180
STOP_SECONDS_MAX = 120


COMMAND = (sys.executable, "-m", "streaming.cli")


@contextlib.contextmanager
def ended(words, log=Path(os.devnull), folder=None):
    """A process that is told to stop at the end, and killed where it does not."""
    with log.open("wb") as said:
        process = subprocess.Popen(words, stderr=said, start_new_session=True, cwd=folder)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(STOP_SECONDS_MAX)


def running(config, log=Path(os.devnull)):
    """`sequencer run`."""
    return ended([*COMMAND, "run", str(config)], log)


def wait_until(config, count, limit_s):
    """Until the service of a configuration has read this many records for its pipeline `p`."""
    checkpoint = Checkpoint.of(load_config(config), "p")
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        shards = checkpoint.status().get("shards", {}).values()
        if sum(each["seen"] for each in shards) >= count:
            return
        time.sleep(0.5)
    raise SystemExit("the service does not get through")


class Service:
    """One pipeline in a folder of its own; `send` gives it something to deliver."""

    def __init__(self, bootstrap, name, folder):
        self.bootstrap, self.name, self.sent = bootstrap, name, 0
        create(bootstrap, *(f"{name}.{role}" for role in ROLES))
        roles = {"output": "out", "rejects": "rejects", "events": "events"}
        topics = "\n".join(f'{key} = "{name}.{role}"' for key, role in roles.items())
        self.config = Path(folder, f"{name}.toml")
        self.config.write_text(
            f'[service]\nname = "{name}"\ncheckpoint = "{folder}/{name}"\n'
            f'[kafka]\nbootstrap_servers = "{bootstrap}"\n[spark]\n"spark.master" = "local[2]"\n'
            f'[pipelines.p]\ndiscipline = "channel"\ninput = ["{name}.in"]\n{topics}\n'
        )
        self.process = None

    def send(self):
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(self.sent, self.sent + MESSAGES):
            label, channel = divmod(number, CHANNELS)
            headers = [("label", b"%d" % label)]
            producer.produce(f"{self.name}.in", bytes(100), b"c%d" % channel, headers=headers)
        assert producer.flush(60) == 0
        self.sent += MESSAGES

    def start(self):
        self.process = subprocess.Popen(
            [*COMMAND, "run", str(self.config)],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def kill(self):
        """kill -9 of all of it."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    @contextlib.contextmanager
    def reading(self):
        """Gives a function that waits for a delivery of what was sent last; the clock's seconds."""
        settings = {"group.id": self.name, "isolation.level": "read_committed"}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **settings})
        consumer.assign(
            [TopicPartition(f"{self.name}.out", n, OFFSET_BEGINNING) for n in range(PARTITIONS)]
        )
        first = (self.sent - MESSAGES) // CHANNELS

        def delivery():
            deadline = time.monotonic() + LIMIT_SECONDS
            while time.monotonic() < deadline:
                message = consumer.poll(0.05)
                if message is None or message.error() is not None:
                    continue
                # An earlier one may become readable late: its transaction is completed at a start.
                if int(dict(message.headers())["label"]) >= first:
                    return time.monotonic()
            raise SystemExit(f"no delivery within {LIMIT_SECONDS} s")

        try:
            yield delivery
        finally:
            consumer.close()


def seconds_to_output(bootstrap, turn):
    """Seconds to the next delivery: a new checkpoint's start, an old one's, after a kill -9."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        service = Service(bootstrap, f"start-{turn}", folder)
        for name in ("new checkpoint", "old checkpoint", "kill -9"):
            if name == "kill -9":
                service.kill()
            service.send()
            with service.reading() as delivery:
                began = time.monotonic()
                service.start()
                found[name] = delivery() - began
            if name == "new checkpoint":
                service.stop()
        service.stop()
    return found
