"""A stage that fails in the middle of a batch: what it had not given yet is not lost."""

import collections
import os
import random
import shutil
import signal
import subprocess
import time
import uuid
from contextlib import contextmanager, suppress

import pytest

from streaming.disciplines.channels.shard_files import FILE_BYTES_MIN
from streaming.disciplines.state_keys import channel_shard, shard_keys
from tests.faults import torn
from tests.faults.channels import judge, prepare, some_messages, value_of
from tests.kafka_helpers import Record, create_topics, produce, read_all
from tests.processes import children, command_line, python_daemons, python_workers
from tests.service_helpers import Service, WarmService, run_once, status, verify, write_config

pytestmark = pytest.mark.timeout(1800)
ONE_PARTITION = {"shards": 2, "state_partitions": 1}
TORN = "tests.faults.torn:operators"
KEYS = [b"k%d" % n for n in range(12)]
PER_KEY = 3
TURNS, PER_TURN, KILLS_A_TURN = 8, 50, 3
"""Under load: so many messages of each channel between some kills."""
LAST = next(
    b"last%d" % n
    for n in range(100)
    if shard_keys(2, 1)[channel_shard(b"last%d" % n, 2)] == max(shard_keys(2, 1))
)
"""A channel of the shard that is stepped last."""
GROUPS = {"G0": ["A", "B", "C"], "G1": ["B", "C", "D"], "G2": ["E", "F", "G"]}
PEERS = [b"p%d" % n for n in range(10)]
TRANSIT = {"transit": "transit"}
SHORT = {
    "channel": {"discipline": "channel"},
    "group": {"discipline": "group", "groups": GROUPS},
    "multicast": {"discipline": "multicast"},
}
LONG = {
    **SHORT,
    "network": {"discipline": "group", "groups": GROUPS, "sequencing": "network", **TRANSIT},
    "clock": {"discipline": "multicast", "order": "clock", **TRANSIT},
    "counter": {"discipline": "multicast", "order": "counter", **TRANSIT},
}


class Everything:
    """A pipeline of each discipline with a batch of input, and what must come of it."""

    def __init__(self, broker, folder, pipelines, **service):
        self.bootstrap, self.pipelines = broker.bootstrap, pipelines
        self.prefix = f"torn-{uuid.uuid4().hex[:8]}."
        roles = {role: role for role in ("rejects", "events", "commands")}
        roles |= {"input": "in", "output": "out"}
        made = {
            name: {
                **each,
                **{
                    role: self.topic(name, last)
                    for role, last in (roles | TRANSIT if "transit" in each else roles).items()
                },
            }
            for name, each in pipelines.items()
        }
        create_topics(self.bootstrap, {self.topic(name, "in"): 1 for name in pipelines})
        self.config = write_config(folder, self.bootstrap, made, **service)
        self.once = service.get("delivery") != "at-least-once"
        self.inputs, self.expected = {}, {}
        for name, each in pipelines.items():
            self.inputs[name], self.expected[name] = INPUTS[each["discipline"]]()

    def send(self):
        """The input of all pipelines."""
        for name, records in self.inputs.items():
            self.produce(records, name)

    def produce(self, records, name="channel"):
        """Further input of a pipeline."""
        produce(self.bootstrap, self.topic(name, "in"), records)

    def topic(self, name, role):
        return f"{self.prefix}{name}.{role}"

    def judge(self):
        """Each delivery is there, and, exactly-once, once; sequences are without a hole."""
        code, said = verify(self.config)
        assert code == 0, said
        for name, expected in self.expected.items():
            found = collections.defaultdict(dict)
            records = read_all(self.bootstrap, self.topic(name, "out"))
            for record in records:
                place = (int(record.header("incarnation")), int(record.header("sequence")))
                assert found[record.key].setdefault(place, record.value) == record.value, name
            for key, by_place in found.items():
                assert [number for _, number in sorted(by_place)] == list(range(len(by_place))), key
            delivered = {key: sorted(each.values()) for key, each in found.items()}
            assert delivered == expected, name
            assert not self.once or len(records) == sum(map(len, expected.values())), name


def channel_input():
    """The labels of each channel, backwards."""
    records = [
        Record(key, b"%s-%d" % (key, n), [("label", b"%d" % n)])
        for n in reversed(range(PER_KEY))
        for key in KEYS
    ]
    return records, {key: [b"%s-%d" % (key, n) for n in range(PER_KEY)] for key in KEYS}


def group_input():
    """The last is rejected: a row of its own."""
    records = [
        Record(b"s%d" % (n % 2), b"m%02d" % n, [("group", b"G%d" % (n % 3))]) for n in range(12)
    ]
    expected = collections.defaultdict(list)
    for record in records:
        for member in GROUPS[record.header("group").decode()]:
            expected[member.encode()].append(record.value)
    return [*records, Record(b"s0", b"bad")], dict(expected)


def multicast_input():
    """The last is rejected: a row of its own."""
    records = [
        Record(PEERS[n], b"m%02d" % n, [("to", b",".join(PEERS[n % 3 :: 2]))]) for n in range(6)
    ]
    expected = collections.defaultdict(list)
    for record in records:
        for peer in record.header("to").split(b","):
            expected[peer].append(record.value)
    return [*records, Record(PEERS[0], b"bad", [("to", b"")])], dict(expected)


INPUTS = {"channel": channel_input, "group": group_input, "multicast": multicast_input}


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_an_operator_ends_between_any_two_of_its_rows(broker, tmp_path, delivery):
    """By an exception, or by a kill -9 of its worker."""
    pipelines = SHORT if delivery == "exactly-once" else {"channel": SHORT["channel"]}
    ends_everywhere(Everything(broker, tmp_path, pipelines, delivery=delivery, **ONE_PARTITION))


@pytest.mark.slow
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_any_operator_ends_between_any_two_of_its_rows(broker, tmp_path, delivery, partitions):
    """Beside other state partitions, whose tasks Spark ends when one has failed."""
    shards = {"shards": 4, "state_partitions": partitions}
    ends_everywhere(Everything(broker, tmp_path, LONG, delivery=delivery, **shards))


def ends_everywhere(every):
    """Run through all moments, and judge."""
    every.send()
    folder = every.config.parent / "moments"
    run_once(every.config, within=TORN, environment=torn.environment(folder))
    moments = torn.moments(folder)
    assert {task.rpartition("-")[0] for task in moments} == set(every.pipelines)
    assert min(moments.values()) > 1, moments
    every.judge()


def test_a_gap_that_fails_the_last_shard_leaves_the_others_to_the_next_batch(broker, tmp_path):
    pipelines = {"channel": {**SHORT["channel"], "gap": {"policy": "fail", "after": "2 s"}}}
    every = Everything(broker, tmp_path, pipelines, **ONE_PARTITION)
    every.produce([Record(LAST, b"1", [("label", b"1")])])
    run_once(every.config)
    time.sleep(2)
    every.send()
    with WarmService(every.config, "--once", within=TORN) as service:
        assert service.wait() == 1, service.said()
        assert "label 0" in service.said()
    every.produce([Record(LAST, b"0", [("label", b"0")])])
    every.expected["channel"][LAST] = [b"0", b"1"]
    run_once(every.config)
    every.judge()


def test_a_disk_that_fills_while_held_records_are_written(broker, tmp_path):
    every = Everything(broker, tmp_path, {"channel": SHORT["channel"]}, **ONE_PARTITION)
    values = [value_of(LAST, n, FILE_BYTES_MIN) for n in range(4)]
    every.produce([Record(LAST, values[n], [("label", b"%d" % n)]) for n in (1, 2, 3)])
    every.send()
    with small_disk(tmp_path / "checkpoints" / "channel" / "held") as disk:
        with WarmService(every.config, "--once", within=TORN) as service:
            assert service.wait() == 1, service.said()
            assert "No space left on device" in service.said()
        disk.grow()
        run_once(every.config)
        every.produce([Record(LAST, values[0], [("label", b"0")])])
        every.expected["channel"][LAST] = values
        run_once(every.config)
        every.judge()


@pytest.mark.slow
@pytest.mark.parametrize("moment", [1, 2])
@pytest.mark.parametrize("name", SHORT)
def test_the_jvm_is_killed_between_two_rows(broker, tmp_path, name, moment):
    """The daemons, which would end the sink's workers, notice nothing for a while."""
    every = Everything(broker, tmp_path, {name: SHORT[name]}, **ONE_PARTITION)
    every.send()
    waiting = torn.environment(tmp_path / "moments", waits_at=moment)
    with WarmService(every.config, within=TORN, environment=waiting) as service:
        service.until(lambda: any((tmp_path / "moments").iterdir()))
        driver = service.warm.process.pid
        daemons = python_daemons(driver)
        (jvm,) = [each for each in children(driver) if "java" in command_line(each)[:200]]
        for each in daemons:
            os.kill(each, signal.SIGSTOP)
        os.kill(jvm, signal.SIGKILL)
        time.sleep(3)  # a sink that takes this for the end commits now
        for each in daemons:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)
        assert service.wait() == 1, service.said()
    run_once(every.config)
    every.judge()


@pytest.mark.slow
def test_kill_9_of_python_workers_under_load(broker, tmp_path, topic_prefix):
    """Workers that pack, operate and write, at random moments, while large batches pass."""
    keys = [b"channel-%04d" % n for n in range(1000)]
    config = prepare(broker, topic_prefix, tmp_path)
    rng = random.Random(int(os.environ.get("SEQUENCER_SEED", "1")))
    sent = kills = 0
    with Service(config) as service:
        for turn in range(TURNS):
            batch = some_messages(turn * PER_TURN, PER_TURN, rng, keys)
            produce(broker.bootstrap, f"{topic_prefix}in", batch)
            sent += len(batch)
            for _ in range(KILLS_A_TURN):
                time.sleep(rng.uniform(0, 2))
                workers = python_workers(service.process.pid)
                for worker in rng.sample(workers, min(2, len(workers))):
                    with suppress(ProcessLookupError):
                        os.kill(worker, signal.SIGKILL)
                        kills += 1
        assert service.poll() is None, service.said()
        service.kill()
    assert kills > TURNS
    run_once(config)
    count = TURNS * PER_TURN
    judge(broker.bootstrap, topic_prefix, count, sent, status(config)["p"], keys)


class SmallDisk:
    """A file system in memory, at first with room for nothing."""

    def __init__(self, path):
        self.path = path

    def mount(self, options):
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")

    def grow(self):
        self.mount("remount,size=64m")


@contextmanager
def small_disk(path):
    if not shutil.which("mount"):
        pytest.skip("no file system can be mounted here: there is no mount")
    path.mkdir(parents=True)
    disk = SmallDisk(path)
    disk.mount("size=4k")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
