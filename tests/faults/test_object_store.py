"""Checkpoints on S3, on HDFS, in Google's store: kill -9, two copies, state that moves there."""

import itertools
import subprocess
import sys
import threading

import pytest

from streaming.arrow.histograms import BOUNDS, DISPLACED
from streaming.config import load_config
from streaming.errors import ConfigError
from streaming.service.checkpoint import Checkpoint, Identity
from tests.cluster import run_on
from tests.faults.clusters import LIMIT_S, Traffic, kill_executor, kill_service, packed
from tests.service_helpers import Service, called, called_json, write_config
from tests.storages import Hdfs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
LOCAL = {"spark.master": "local[2]", "spark.driver.memory": "1g"}


@pytest.fixture
def traffic(broker, storage, tmp_path):
    made = Traffic(broker, tmp_path, checkpoint=storage.uri(tmp_path.name), trigger="1 s")
    run_on(made.config, {**LOCAL, **storage.spark()})
    return made


def test_the_services_own_files(storage, tmp_path):
    folder = storage.uri("own")
    config = write_config(tmp_path, "localhost:9", {"p": {}}, checkpoint=folder)
    run_on(config, storage.spark())
    checkpoint = Checkpoint.of(load_config(config), "p")
    assert checkpoint.identity() is None
    identity = Identity("multicast", 4, 2, ["in"], {"order": "batch"})
    assert checkpoint.pin(identity) == identity == checkpoint.identity()
    measured = {"seen": 3, "histograms": {DISPLACED: [3] + [0] * len(BOUNDS[DISPLACED])}}
    last = {"batch": 1, "shards": {"0": measured}}
    checkpoint.write_status(last)
    assert checkpoint.status() == last
    advised = called_json("advise", config)
    assert advised["pipelines"]["p"]["messages"] == 3
    checkpoint.mark_moved("elsewhere", 3)
    with pytest.raises(ConfigError, match="was moved"):
        checkpoint.pin(identity)
    checkpoint.begin_move("elsewhere")
    assert checkpoint.identity() is None
    with pytest.raises(ConfigError, match="not moved all the way"):
        checkpoint.pin(identity)
    checkpoint.end_move()
    assert checkpoint.pin(identity) == identity


def test_a_file_that_is_replaced_while_it_is_read(storage, tmp_path):
    """Its new length may be another than the one that its reader was told."""
    checkpoint = Checkpoint(storage.uri(tmp_path.name), "p", storage.spark())
    lengths = [{"batch": n, "shards": {"0": "x" * 2_000 * (n % 2)}} for n in range(2)]
    checkpoint.write_status(lengths[0])
    over = threading.Event()

    def replace():
        for each in itertools.cycle(lengths):
            if over.is_set():
                return
            checkpoint.write_status(each)

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        read = [checkpoint.status() for _ in range(300)]
    finally:
        over.set()
        writer.join()
    assert all(each in lengths for each in read)


def test_the_driver_is_killed(storage, traffic, tmp_path):
    for _ in range(2):
        traffic.through(kill_service)
    traffic.send(5)
    traffic.finish()
    kept = Checkpoint(storage.uri(tmp_path.name), "channels", storage.spark())
    read = kept.read_up_to()[traffic.inputs["channels"]]
    assert sum(read.values()) == traffic.sent["channels"]


def test_on_a_cluster_an_executor_and_the_driver_are_killed(cluster, storage, traffic):
    spark = cluster.spark(packed(cluster, traffic.config))
    run_on(traffic.config, {**spark, **storage.spark()})
    traffic.through(lambda _: kill_executor(cluster))
    traffic.through(kill_service)
    traffic.send(5)
    traffic.finish()


def test_the_newer_of_two_copies_goes_on(traffic):
    traffic.send(20)
    with Service(traffic.config) as first:
        first.until(traffic.done, LIMIT_S)
        with Service(traffic.config) as second:
            second.until(lambda: "pipelines running" in second.said(), LIMIT_S)
            traffic.send(20)
            assert first.wait(LIMIT_S) == 1, first.said()
            assert "Another copy of this service" in first.said()
            second.until(traffic.done, LIMIT_S)
            assert second.stop() == 0, second.said()
    traffic.judge()


def test_the_state_moves_there_from_a_folder(storage, broker, tmp_path):
    traffic, to = Traffic(broker, tmp_path), storage.uri(tmp_path.name)
    run_on(traffic.config, {**LOCAL, **storage.spark()})
    traffic.through(lambda _: None)
    asked = ("--shards", "8", "--state-partitions", "2", "--to", to)
    code, out, said = called("rescale", traffic.config, *asked)
    assert code == 0, said
    text = traffic.config.read_text().replace(str(tmp_path / "checkpoints"), to)
    traffic.config.write_text(text.replace("[service]", "[service]\nshards = 8"))
    assert f'checkpoint = "{to}"' in out
    traffic.send(5)
    traffic.finish()


@pytest.mark.parametrize("storage", [pytest.param(Hdfs, id="hdfs")], indirect=True)
def test_the_namenode_goes_away_and_comes_back(storage, traffic):
    before = {}
    traffic.send(20)
    with Service(traffic.config) as service:
        service.until(lambda: traffic.moved_since(before), LIMIT_S)
        storage.kill()
        traffic.send(20)
        service.until(lambda: "cannot be used" in service.said(), LIMIT_S)
        storage.come_back()
        traffic.send(5)
        service.until(traffic.done, LIMIT_S)
        assert service.stop() == 0, service.said()
        assert "Traceback" not in service.said()
    traffic.judge()


IDENTIFIED = """
import sys
from dataclasses import replace
from pathlib import Path
from streaming.config import load_config
from streaming.service import planning
from streaming.service.checkpoint import Checkpoint, Identity
from streaming.spark.session import spark_session

config = load_config(Path(sys.argv[1]))
first = Identity("multicast", 4, 2, ["in"], {"order": "batch"})
write_new = planning.write_new

def late(session, *file):
    write_new(session, *file)
    planning.write_new = write_new
    assert planning.pinned(session, checkpoint, replace(first, shards=9), ["shards"]) == first
    write_new(session, *file)

with spark_session(config) as session:
    planning.write_new = late
    checkpoint = Checkpoint.of(config, "p")
    assert planning.pinned(session, checkpoint, first, []) == first
    assert checkpoint.identity() == first
    print("the first counts")
"""


def test_of_two_copies_that_begin_at_once_the_first_says_how_many_shards(storage, tmp_path):
    config = write_config(tmp_path, "localhost:9", {"p": {}}, checkpoint=storage.uri("first"))
    run_on(config, {**LOCAL, **storage.spark()})
    words = [sys.executable, "-c", IDENTIFIED, config]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert "the first counts" in ended.stdout, ended.stderr[-2000:]


LATE = """
import sys
from pathlib import Path
from streaming.config import load_config
from streaming.spark.session import spark_session

config = load_config(Path(sys.argv[1]))
with spark_session(config) as session:
    jvm = session.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{config.service.checkpoint}/offsets/7")
    hadoop = session._jsparkSession.sessionState().newHadoopConf()
    made = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
    files = made.create(path.getParent(), hadoop)
    files.mkdirs(path.getParent())
    late, other = (files.createAtomic(path, False) for _ in range(2))
    other.write(b"another driver's")
    other.close()
    late.write(b"late")
    try:
        late.close()
    except Exception as error:
        print("refused:", error)
    opened = files.open(path)
    print("it has", bytes(opened.readAllBytes()).decode())
    opened.close()
"""


def test_a_late_driver_replaces_no_entry_of_a_log(storage, tmp_path):
    """Both looked before either wrote."""
    config = write_config(tmp_path, "localhost:9", {"p": {}}, checkpoint=storage.uri("late"))
    run_on(config, {**LOCAL, **storage.spark()})
    ended = subprocess.run(
        [sys.executable, "-c", LATE, config],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "refused:" in ended.stdout, ended.stderr[-2000:]
    assert "it has another driver's" in ended.stdout
