"""A stage that fails in the middle of a batch: what it had not given yet is not lost."""

import os
import random
import signal
import time
from contextlib import suppress

import pytest

from streaming.disciplines.channels.shard_files import FILE_BYTES_MIN
from streaming.disciplines.state_keys import shard_keys, shard_of_name
from tests.faults import torn
from tests.faults.channels import judge, prepare, some_messages, value_of
from tests.faults.disks import small_disk
from tests.faults.everything import LONG, SHORT, Everything, ends_everywhere
from tests.kafka_helpers import Record, produce, until
from tests.processes import children, command_line, python_daemons, python_workers
from tests.service_helpers import Service, WarmService, run_once, status

pytestmark = pytest.mark.timeout(1800)
ONE_PARTITION = {"shards": 2, "state_partitions": 1}
TORN = "tests.faults.torn:operators"
TURNS, PER_TURN, KILLS_A_TURN, SIZE = 8, 60, 3, 300
"""Under load: so many messages of each channel, of so many bytes, between some kills."""
LAST = next(
    b"last%d" % n
    for n in range(100)
    if shard_keys(2, 1)[shard_of_name(b"last%d" % n, 2)] == max(shard_keys(2, 1))
)
"""A channel of the shard that is stepped last."""


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


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("size=4k", "No space left on device"),
        pytest.param("ro", "Read-only file system", marks=pytest.mark.slow),
    ],
)
def test_a_disk_that_fails_while_held_records_are_written(broker, tmp_path, trouble, said):
    every = Everything(broker, tmp_path, {"channel": SHORT["channel"]}, **ONE_PARTITION)
    values = [value_of(LAST, n, FILE_BYTES_MIN) for n in range(4)]
    every.produce([Record(LAST, values[n], [("label", b"%d" % n)]) for n in (1, 2, 3)])
    every.send()
    with small_disk(tmp_path / "checkpoints" / "channel" / "held", trouble) as disk:
        with WarmService(every.config, "--once", within=TORN) as service:
            assert service.wait() == 1, service.said()
            assert said in service.said()
        disk.mend()
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
            batch = some_messages(turn * PER_TURN, PER_TURN, rng, keys, SIZE)
            produce(broker.bootstrap, f"{topic_prefix}in", batch)
            sent += len(batch)
            if turn == 0:
                until(lambda: python_workers(service.process.pid), "the first workers")
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
    judge(broker.bootstrap, topic_prefix, count, sent, status(config)["p"], keys, SIZE)
