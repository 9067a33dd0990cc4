"""Checkpoints that are not what they were: restored from a backup, or under changed rules."""

import shutil
import signal

import pytest

from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import (
    RUN_SECONDS_MAX,
    Service,
    WarmService,
    channel_topics,
    run_once,
    status,
    write_config,
)

pytestmark = pytest.mark.timeout(900)
KEYS = tuple(b"k%d" % n for n in range(12))
"""On both of two state partitions."""


class Topics:
    """A channel pipeline and what is in its topics."""

    def __init__(self, broker, prefix, folder):
        self.bootstrap, self.prefix, self.folder = broker.bootstrap, prefix, folder
        create_topics(broker.bootstrap, {f"{prefix}in": 1})
        self.config = self.configured()

    def configured(self, **more):
        pipeline = {**channel_topics(self.prefix), **more}
        sizes = {"shards": 2, "state_partitions": 2}
        return write_config(self.folder, self.bootstrap, {"p": pipeline}, **sizes)

    def send(self, first, stop, keys=KEYS):
        records = [
            Record(key, b"%s-%d" % (key, n), [("label", b"%d" % n)], 0)
            for n in range(first, stop)
            for key in keys
        ]
        produce(self.bootstrap, f"{self.prefix}in", records)

    def delivered(self, role="out"):
        """The values of each key, in order."""
        got = {}
        for record in read_all(self.bootstrap, f"{self.prefix}{role}"):
            got.setdefault(record.key, []).append(int(record.value.rpartition(b"-")[2]))
        return got


@pytest.fixture
def topics(broker, topic_prefix, tmp_path):
    return Topics(broker, topic_prefix, tmp_path)


def every(values):
    return dict.fromkeys(KEYS, values)


def copied(source, target):
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


def refused(config, *arguments):
    """A start that ends with status 1; what it said."""
    with WarmService(config, "--once", *arguments) as service:
        assert service.wait(RUN_SECONDS_MAX) == 1, service.said()
        return service.said()


def test_a_checkpoint_older_than_its_output_is_refused_and_has_a_way_on(topics, tmp_path):
    """Its next batches have the numbers of batches that were written, and other input."""
    checkpoint, backup = tmp_path / "checkpoints", tmp_path / "backup"
    topics.send(0, 10)
    run_once(topics.config)
    copied(checkpoint, backup)
    for first in (10, 20):
        topics.send(first, first + 10)
        run_once(topics.config)
    copied(backup, checkpoint)
    topics.send(30, 40)
    for _ in range(2):  # a refusal changes nothing
        said = refused(topics.config)
        assert "is older than its output" in said
        assert "Nothing was written." in said
        assert "Restore the newest checkpoint" in said
    assert set(map(len, topics.delivered().values())) == {30}

    said = run_once(topics.config, "--accept-repeats")
    assert "may have written after it is repeated" in said
    whole = [*range(30), *range(10, 40)]
    assert topics.delivered() == every(whole), "repeated, and nothing is left out"
    topics.send(40, 41)
    run_once(topics.config)
    assert topics.delivered() == every([*whole, 40])
    copied(backup, checkpoint)
    assert "is older than its output" in refused(topics.config), "and so is the backup ever after"


def test_a_repeated_batch_has_the_rules_that_it_began_with(topics, tmp_path):
    """One partition has committed the batch and lost nothing of it; the other one repeats it."""
    topics.send(0, 1)
    run_once(topics.config)
    topics.send(2, 3)  # held: label 1 is missing
    topics.send(0, 1)  # repeats, which are rejected
    text = topics.config.read_text()
    topics.config.write_text(text.replace("local[2]", "local[1]"))  # one partition, then the other
    died = {"SEQUENCER_FAULT": f"4-5:{tmp_path}/died"}
    with Service(topics.config, "--once", environment=died) as service:
        assert service.wait() == -signal.SIGKILL, service.said()
    assert 0 < len(topics.delivered("rejects")) < len(KEYS), "the batch is in doubt"
    topics.configured(gap={"policy": "skip", "after": "1 ms"}, duplicates="drop")
    run_once(topics.config)
    assert topics.delivered("rejects") == every([0])
    topics.send(3, 4)
    run_once(topics.config)
    assert topics.delivered() == every([0, 2, 3])
    assert status(topics.config)["p"]["gaps"] == len(KEYS)
