"""Checkpoints that are not what they were: restored from a backup, or under changed rules."""

import os
import shutil
import signal
import threading

import pytest

from streaming.disciplines.channels.shard_files import FILE_BYTES_MIN
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.service_helpers import (
    RUN_SECONDS_MAX,
    Service,
    WarmService,
    blocked,
    called,
    called_json,
    channel_topics,
    run_once,
    status,
    verify,
    write_config,
)
from tests.warm import warm

pytestmark = pytest.mark.timeout(900)
KEYS = tuple(b"k%d" % n for n in range(12))
"""On both of two state partitions."""
NUMBERS = ("incarnation", "sequence")


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

    def send(self, first, stop, keys=KEYS, size=0):
        records = [
            Record(key, b"%s-%s-%d" % (key, os.urandom(size), n), [("label", b"%d" % n)], 0)
            for n in range(first, stop)
            for key in keys
        ]
        produce(self.bootstrap, f"{self.prefix}in", records)

    def names_are_of_one_content(self):
        """Each (key, incarnation, sequence) of the deliveries, also of those that were lost."""
        contents = {}
        for record in read_all(self.bootstrap, f"{self.prefix}out"):
            name = (record.key, *(dict(record.headers)[each] for each in NUMBERS))
            assert contents.setdefault(name, record.value) == record.value, name
            assert int(name[2]) == 0 or (*name[:2], b"%d" % (int(name[2]) - 1)) in contents

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
    moved = ("--shards", "3", "--state-partitions", "2", "--to", str(tmp_path / "moved"))
    move = warm().call("rescale", str(topics.config), *moved)
    assert move.poll(RUN_SECONDS_MAX) == 1, move.said()
    assert "is behind what was written from it" in move.said()
    topics.send(30, 40)
    for _ in range(2):  # a refusal changes nothing
        said = refused(topics.config)
        assert "is older than its output" in said
        assert "Nothing was written." in said
        assert "Restore the newest checkpoint" in said
    assert set(map(len, topics.delivered().values())) == {30}

    said = run_once(topics.config, "--accept-repeats")
    assert "What may have been written after it is repeated" in said
    whole = [*range(30), *range(10, 40)]
    assert topics.delivered() == every(whole), "repeated, and nothing is left out"
    topics.send(40, 41)
    run_once(topics.config)
    assert topics.delivered() == every([*whole, 40])
    topics.names_are_of_one_content()
    copied(backup, checkpoint)
    assert "is older than its output" in refused(topics.config), "and so is the backup ever after"


def test_a_backup_of_a_running_service_is_one_moment_of_it(topics, tmp_path):
    """Files in `held/` come and go, and one message of each channel waits at every moment."""
    stop, at, count, large = threading.Event(), tmp_path / "backup", 0, FILE_BYTES_MIN // 4

    def send():
        nonlocal count
        topics.send(1, 2, size=large)
        while not stop.is_set():
            topics.send(count + 3, count + 4, size=large)  # behind one that waits for this:
            topics.send(count, count + 1)
            count += 2
            stop.wait(0.5)
        topics.send(count, count + 1)
        count += 2

    with WarmService(topics.config) as service:
        sender = threading.Thread(target=send)
        sender.start()
        try:
            service.until(lambda: status(topics.config)["p"]["delivered"])
            for turn in range(4):
                code, out, said = called("backup", topics.config, f"{at}-{turn}")
                assert (code, out) == (0, f"{at}-{turn}\n"), said
        finally:
            stop.set()
            sender.join()
        assert service.stop() == 0, service.said()
    run_once(topics.config)
    assert topics.delivered() == every([*range(count)])
    held = [path for turn in range(4) for path in (tmp_path / f"backup-{turn}").glob("p/held/*/*")]
    assert held, "otherwise this shows little"
    copied(f"{at}-0", tmp_path / "checkpoints")
    assert "is older than its output" in refused(topics.config)
    before = {key: len(values) for key, values in topics.delivered().items()}
    run_once(topics.config, "--accept-repeats")
    for key, values in topics.delivered().items():
        again = values[before[key] :]
        assert again == [*range(again[0], count)], "nothing is left out"
    topics.names_are_of_one_content()
    code, _, said = called("backup", topics.config, f"{at}-stopped")
    assert code == 0, said
    copied(f"{at}-stopped", tmp_path / "checkpoints")
    topics.send(count, count + 1)
    run_once(topics.config)
    assert {values[-1] for values in topics.delivered().values()} == {count}, "without a word"


def test_a_repeated_batch_has_the_rules_that_it_began_with(topics, tmp_path):
    """One partition has committed the batch and lost nothing of it; the other one repeats it."""
    own = [key for key in KEYS if key.startswith(b"k1")]
    others = [key for key in KEYS if key not in own]
    topics.configured(rules=[{"channel": "k1*", "duplicates": "drop"}])
    topics.send(0, 1)
    run_once(topics.config)
    topics.send(2, 3)  # held: label 1 is missing
    topics.send(0, 1)  # repeats, which are rejected, or dropped by the rule
    text = topics.config.read_text()
    topics.config.write_text(text.replace("local[2]", "local[1]"))  # one partition, then the other
    died = {"SEQUENCER_FAULT": f"4-5:{tmp_path}/died"}
    with Service(topics.config, "--once", environment=died) as service:
        assert service.wait() == -signal.SIGKILL, service.said()
    assert 0 < len(topics.delivered("rejects")) < len(others), "the batch is in doubt"
    rules = [{"channel": "k1*", "gap": {"policy": "wait"}, "duplicates": "reject"}]
    skips = {"gap": {"policy": "skip", "after": "1 ms"}, "duplicates": "drop"}
    topics.configured(**skips, rules=rules, origin=True)
    run_once(topics.config)
    assert topics.delivered("rejects") == {key: [0] for key in others}
    rejects = read_all(topics.bootstrap, f"{topics.prefix}rejects")
    assert all(each.header("reject-after").endswith(b"/0") for each in rejects)
    topics.send(3, 4)
    run_once(topics.config)
    assert topics.delivered() == {key: [0] if key in own else [0, 2, 3] for key in KEYS}
    assert status(topics.config)["p"]["gaps"] == len(others)
    waiting = blocked(topics.config)["p"]["waiting"]
    told = sorted((each["channel"].encode(), each["rule"], each["held"]) for each in waiting)
    assert told == [(key, "k1*", 2) for key in own]
    topics.configured(**skips, rules=[{**rules[0], "duplicates": "drop"}], origin=True)
    code, said = verify(topics.config)  # by the rules that dropped what is not there
    assert code == 0, said
    follow(topics)


def follow(topics):
    """`why`, with the header `origin` for what was delivered since it is switched on."""
    out = read_all(topics.bootstrap, f"{topics.prefix}out")
    for label, found_by in ((0, "content"), (2, "origin"), (3, "origin")):
        each = next(each for each in out if each.header("label") == b"%d" % label)
        life = called_json("why", f"{each.topic}/{each.partition}@{each.offset}", topics.config)
        (one,) = life["pipelines"]
        assert (life["found_by"], one["state"], len(one["deliveries"])) == (
            found_by,
            "delivered",
            1,
        )
        gaps = [(event["from"], event["to"], event["reason"]) for event in one["events"]]
        if label < 3:  # label 3 may have come after the gap had ended, and then waited for nothing
            assert gaps == ([(1, 2, "timeout")] if label else [])


def test_a_gap_that_waited_for_ever_ends_under_changed_rules_without_new_input(topics):
    """No timer was set while the rules were to wait."""
    topics.send(0, 1)
    topics.send(2, 3)
    run_once(topics.config)
    assert topics.delivered() == every([0])
    topics.configured(gap={"policy": "skip", "after": "1 ms"})
    with WarmService(topics.config) as service:
        service.until(lambda: topics.delivered() == every([0, 2]), 120)
        assert service.stop() == 0, service.said()
