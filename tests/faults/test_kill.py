"""kill -9 between any two of the numbered steps, and at random moments; judged from the topics."""

import itertools
import os
import random
import signal

import pytest

from streaming.crashes import POINTS
from tests.faults.kills import prepare, through_kills
from tests.kafka_helpers import Record, produce, read_all
from tests.service_helpers import Service, run_once, status

KEYS = [b"k%02d" % n for n in range(20)]


def some_messages(first, count, rng, keys=KEYS):
    """Labels first … first + count - 1 of every channel, shuffled within a window, some twice."""
    placed = []
    for key, n in itertools.product(keys, range(first, first + count)):
        record = Record(key, b"%s-%d" % (key, n), [("label", b"%d" % n)])
        placed.append((n + rng.uniform(0, 8), record))
        if rng.random() < 0.02:
            placed.append((n + rng.uniform(0, 8), record))
    return [record for _, record in sorted(placed, key=lambda each: each[0])]


def judge(bootstrap, prefix, count, sent, figures, keys=KEYS):
    """Every message once, in order, sequences without a hole; every record accounted for."""
    out = read_all(bootstrap, f"{prefix}out", limit_s=120)
    by_key = {key: [] for key in keys}
    for record in out:
        by_key[record.key].append(record)
    for key, records in by_key.items():
        assert [r.value for r in records] == [b"%s-%d" % (key, n) for n in range(count)], key
        assert [int(r.header("sequence")) for r in records] == list(range(count)), key
        assert len({r.header("incarnation") for r in records}) == 1, key
    rejects = read_all(bootstrap, f"{prefix}rejects", limit_s=120)
    assert {r.header("reject-reason") for r in rejects} <= {b"duplicate"}
    places = [(r.header("reject-partition"), r.header("reject-offset")) for r in rejects]
    assert len(set(places)) == len(places), "each reject once"
    assert len(out) + len(rejects) == sent
    assert figures["in"] == sent
    assert figures["delivered"] == len(out)
    assert sum(figures["rejected"].values()) == len(rejects)
    assert figures["held"] == 0


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
