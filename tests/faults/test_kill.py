"""kill -9 between any two of the numbered steps, and at random moments; judged from the topics."""

import os
import random
import signal

import pytest

from streaming.crashes import POINTS
from streaming.disciplines.channels.shard_files import FILE_BYTES_MIN
from tests.faults.channels import KEYS, judge, prepare, some_messages
from tests.faults.dying import FAULTS
from tests.faults.kills import through_kills
from tests.kafka_helpers import produce
from tests.service_helpers import Service, run_once, status

IN_WORKERS = tuple(point for point in POINTS if point not in ("1-2", "5-6"))
WHOLE = ("1-2", "5-6")
"""Where the driver takes the step. Between the commit and its report, 4-5, the whole service dies in
`tests/spark/test_large_records.py` and others, and here in the long form."""


class Crashes:
    """One channel pipeline on one checkpoint; each time it dies, there is new input."""

    def __init__(self, broker, prefix, folder):
        self.bootstrap, self.prefix, self.folder = broker.bootstrap, prefix, folder
        self.config = prepare(broker, prefix, folder)
        self.rng = random.Random(1)
        self.sent = self.count = 0

    def send(self):
        batch = some_messages(self.count, 10, self.rng)
        produce(self.bootstrap, f"{self.prefix}in", batch)
        self.sent, self.count = self.sent + len(batch), self.count + 10

    def faults(self, points):
        """What SEQUENCER_FAULT says for these points."""
        return ",".join(f"{point}:{self.folder}/died-{point}" for point in points)

    def died_at(self, points):
        for point in points:
            marker = self.folder / f"died-{point}"
            assert marker.exists(), point
            marker.unlink()

    def die(self, point):
        """The whole service: driver, JVM and workers."""
        self.send()
        with Service(
            self.config, "--once", environment={"SEQUENCER_FAULT": self.faults([point])}
        ) as run:
            assert run.wait() == -signal.SIGKILL, f"{point}: {run.said()}"
        self.died_at([point])

    def judge(self):
        run_once(self.config)
        judge(self.bootstrap, self.prefix, self.count, self.sent, status(self.config)["p"])


@pytest.mark.timeout(1800)
def test_a_crash_between_any_two_steps(broker, topic_prefix, tmp_path):
    """Of a worker where it is a worker that takes the step, again and again in one batch.

    Then of the whole service, where the driver takes it.
    """
    crashes = Crashes(broker, topic_prefix, tmp_path)
    crashes.send()
    faults = {FAULTS: crashes.faults(IN_WORKERS)}
    said = run_once(crashes.config, within="tests.faults.dying:workers", environment=faults)
    crashes.died_at(IN_WORKERS)
    assert "Trying again in 0 s." in said
    for point in WHOLE:
        crashes.die(point)
    crashes.judge()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_crash_of_the_whole_service_between_any_two_steps(broker, topic_prefix, tmp_path):
    crashes = Crashes(broker, topic_prefix, tmp_path)
    for point in POINTS:
        crashes.die(point)
    crashes.judge()


def kill_at_random(
    broker, prefix, folder, *, kills, messages, seconds, keys=KEYS, size=0, most=10_000, shards=16
):
    """The service is killed at random moments while messages come in; then it finishes."""
    config = prepare(broker, prefix, folder, batch_records_max=most, shards=shards)
    seed = int(os.environ.get("SEQUENCER_SEED", "3"))
    rng = random.Random(seed)
    per_turn = messages // len(keys) // (kills + 1)
    sent = 0

    def turn(number):
        nonlocal sent
        batch = some_messages(number * per_turn, per_turn, rng, keys, size)
        produce(broker.bootstrap, f"{prefix}in", batch)
        sent += len(batch)

    through_kills(config, turn, kills=kills, seconds=seconds, seed=seed)
    run_once(config)
    count = (kills + 1) * per_turn
    judge(broker.bootstrap, prefix, count, sent, status(config)["p"], keys, size)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_kills_during_200_000_messages(broker, topic_prefix, tmp_path):
    kill_at_random(broker, topic_prefix, tmp_path, kills=20, messages=200_000, seconds=4)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_kills_while_large_records_wait_in_files(broker, topic_prefix, tmp_path):
    kill_at_random(
        broker, topic_prefix, tmp_path, kills=10, messages=11_000, seconds=4, size=20_000
    )


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_kills_while_the_tables_of_many_channels_are_files(broker, topic_prefix, tmp_path):
    keys = [b"channel-%05d" % n for n in range(20_000)]
    kill_at_random(
        broker,
        topic_prefix,
        tmp_path,
        kills=10,
        messages=440_000,
        seconds=4,
        keys=keys,
        shards=4,
        most=20_000,
    )
    held = tmp_path / "checkpoints" / "p" / "held"
    assert any(path.stat().st_size > FILE_BYTES_MIN for path in held.glob("*/*"))
