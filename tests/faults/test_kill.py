"""kill -9 between any two of the numbered steps, and at random moments; judged from the topics."""

import os
import random
import signal

import pytest

from streaming.crashes import POINTS
from tests.faults.channels import KEYS, judge, prepare, some_messages
from tests.faults.kills import through_kills
from tests.kafka_helpers import produce
from tests.service_helpers import Service, run_once, status


@pytest.mark.timeout(1800)
def test_a_crash_between_any_two_steps(broker, topic_prefix, tmp_path):
    """One checkpoint; the service dies at every fault point in turn, each time with new input."""
    config = prepare(broker, topic_prefix, tmp_path)
    rng = random.Random(1)
    sent, count = 0, 0
    for point in POINTS:
        batch = some_messages(count, 10, rng)
        produce(broker.bootstrap, f"{topic_prefix}in", batch)
        sent, count = sent + len(batch), count + 10
        marker = tmp_path / f"died-{point}"
        with Service(config, "--once", environment={"SEQUENCER_FAULT": f"{point}:{marker}"}) as run:
            assert run.wait() == -signal.SIGKILL, f"{point}: {run.said()}"
        assert marker.exists(), point
    run_once(config)
    judge(broker.bootstrap, topic_prefix, count, sent, status(config)["p"])


def kill_at_random(broker, prefix, folder, *, kills, messages, seconds):
    """The service is killed at random moments while messages come in; then it finishes."""
    config = prepare(broker, prefix, folder, batch_records_max=10_000)
    seed = int(os.environ.get("SEQUENCER_SEED", "3"))
    rng = random.Random(seed)
    per_turn = messages // len(KEYS) // (kills + 1)
    sent = 0

    def turn(number):
        nonlocal sent
        batch = some_messages(number * per_turn, per_turn, rng)
        produce(broker.bootstrap, f"{prefix}in", batch)
        sent += len(batch)

    through_kills(config, turn, kills=kills, seconds=seconds, seed=seed)
    run_once(config)
    judge(broker.bootstrap, prefix, (kills + 1) * per_turn, sent, status(config)["p"])


@pytest.mark.timeout(1200)
def test_kill_at_random_moments(broker, topic_prefix, tmp_path):
    kill_at_random(broker, topic_prefix, tmp_path, kills=1, messages=20_000, seconds=3)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_twenty_kills_during_200_000_messages(broker, topic_prefix, tmp_path):
    kill_at_random(broker, topic_prefix, tmp_path, kills=20, messages=200_000, seconds=4)
