"""Where Spark runs: masters that there are and are not, what is passed over, faults that stay."""

import os
import threading
from types import SimpleNamespace

import pytest

from streaming.config import parse_config
from streaming.errors import ConfigError, JobFailed
from streaming.kafka.ports import free_port
from streaming.spark import cluster, preflight, session, settings
from streaming.spark.cluster import is_local_master, wait_for_master
from streaming.spark.failures import as_sequencer_error
from streaming.stopping import Stopping
from streaming.versions import versions

PIPELINES = {"p": {"discipline": "channel"}}


def config(**spark):
    return parse_config({"spark": spark, "pipelines": PIPELINES}, {}, "c")


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://h:7077", False),
        ("k8s://https://h", False),
        ("yarn", False),
    ],
)
def test_local_masters(master, local):
    assert is_local_master(master) == local


@pytest.mark.parametrize("master", ["spark://h", "spark://:x"])
def test_an_address_that_is_none_is_refused_at_once(master):
    with pytest.raises(ConfigError, match="is not a Spark master.s address"):
        wait_for_master(master, Stopping(), print)


def test_a_master_that_is_away_is_waited_for(monkeypatch):
    monkeypatch.setattr(cluster, "MASTER_SECONDS_MAX", 0)
    told = []
    with pytest.raises(JobFailed, match="No Spark master listens"):
        wait_for_master(f"spark://127.0.0.1:{free_port()}", Stopping(), told.append)


def test_a_stop_ends_the_wait():
    stopping, told = Stopping(), []

    def tell(line):
        told.append(line)
        threading.Thread(target=stopping.set).start()

    assert not wait_for_master(f"spark://127.0.0.1:{free_port()}", stopping, tell)
    assert "Waiting for it" in told[0]


@pytest.mark.parametrize(
    ("spark", "cores"),
    [
        ({}, 1),
        ({"spark.cores.max": "6"}, 6),
        ({"spark.executor.instances": 3, "spark.executor.cores": 2}, 6),
    ],
)
def test_cores_that_are_asked_for(spark, cores):
    assert cluster._wanted(config(**spark).spark) == cores


def test_a_master_that_gives_no_others_ends_the_service(monkeypatch):
    cores, said, seconds = [2], [], [0]
    monkeypatch.setattr(cluster, "executor_cores", lambda _context: cores[0])
    monkeypatch.setattr(cluster, "is_stopped", lambda _context: False)
    monkeypatch.setattr(cluster.time, "monotonic", lambda: seconds[0])

    def watched(master):
        context = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
        return cluster.Cluster(context, config(), said.append)

    standalone, kubernetes = watched("spark://h:7077"), watched("k8s://https://h")
    for cores[0], seconds[0] in ((2, 0), (0, 10), (0, 130), (1, 140), (0, 150), (0, 270)):
        standalone.watch()
        kubernetes.watch()
    assert [line.split()[0] for line in said] == ["Waiting"] * 2 + ["1"] * 2 + ["Waiting"] * 2
    seconds[0] = 271
    kubernetes.watch()  # it asks for pods until there are some
    with pytest.raises(JobFailed, match=r"All executors are lost, and spark://h:7077 gives no"):
        standalone.watch()


def test_what_the_guarantees_do_not_allow_is_told():
    (line,) = settings.remarks(config(**{"spark.speculation": True}))
    assert "spark.speculation = true is ignored" in line
    assert not settings.remarks(config(**{"spark.speculation": False}))


def test_a_look_at_the_state_takes_no_cluster():
    more = {"spark.archives": "a#b", "spark.executor.memory": "1g"}
    kept = session.local(config(**{"spark.master": "spark://h:1"}, **more)).spark
    assert kept == {"spark.master": "local[*]", "spark.executor.memory": "1g"}


@pytest.mark.parametrize(
    ("said", "message", "remedy"),
    [
        (
            "/x/python: Error while finding module specification for "
            "'streaming.spark.worker_daemon' (ModuleNotFoundError: No module named 'streaming')",
            "no module streaming",
            "sequencer pack",
        ),
        (
            'Caused by: java.io.IOException: Cannot run program "/no/python": error=2',
            "no Python at /no/python",
            "spark.pyspark.python",
        ),
        (
            "PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version "
            "(3, 12) than that in driver 3.11, PySpark cannot run",
            "another version",
            "spark.pyspark.python",
        ),
    ],
)
def test_faults_of_executors_that_stay(said, message, remedy):
    error = as_sequencer_error(said)
    assert isinstance(error, JobFailed), "it is not tried again"
    assert message in error.message
    assert remedy in error.remedy


def test_spark_that_does_not_start_is_told_in_a_line():
    trace = "An error occurred.\n: java.lang.IllegalArgumentException: spark.executor.memory: lots"
    error = session._refused(Exception(trace + "\n\tat a.b\n" * 90), config())
    assert error.message == (
        "Spark does not start: java.lang.IllegalArgumentException: spark.executor.memory: lots."
    )


def test_executors_that_differ_are_named():
    mine = versions()
    assert mine["Python"] == f"{os.sys.version_info[0]}.{os.sys.version_info[1]}"
    same = preflight.Executor("a", "/py", mine, ())
    other = preflight.Executor(
        "b", "/py", {**mine, "numpy": "none", "this service": "old"}, ("Kafka …",)
    )
    preflight._judge([same], config())
    with pytest.raises(ConfigError) as refused:
        preflight._judge([same, other], config())
    assert len(refused.value.faults) == 3
    assert all(fault.startswith("executor on b (/py): ") for fault in refused.value.faults)


def test_a_broker_out_of_reach_is_named():
    check = preflight.Check((), {}, (("127.0.0.1", free_port()),))
    (told,) = check(iter(()))
    assert "is out of reach" in told.faults[0]
    check = preflight.Check(("no_such_module_at_all",), {}, (("127.0.0.1", free_port()),))
    (told,) = check(iter(()))
    assert "no_such_module_at_all cannot be imported" in told.faults[0]


def test_cores_and_state_partitions_that_do_not_fit():
    assert not cluster.misfits(2, {"p": 2})
    assert not cluster.misfits(4, {"p": 2, "q": 2})
    assert not cluster.misfits(1, {"p": 4})
    (few,) = cluster.misfits(4, {"p": 2, "q": 1})
    assert "4 cores, but fewer state partitions (p 2, q 1)" in few
    (many,) = cluster.misfits(1, {"p": 5})
    assert "p: 5 state partitions for 1 core" in many
    assert "sequencer rescale" in few
    assert "sequencer rescale" in many
    assert not cluster.misfits(2, {"p": 2}, 2)
    (kept,) = cluster.misfits(2, {"p": 2, "q": 4}, 4)
    assert kept.startswith(
        "p: the configuration asks for 4 state partitions; the checkpoint has 2,"
    )


def test_batches_that_follow_each_other_quickly_on_an_object_store():
    service = {"checkpoint": "s3a://b/x"}
    told = parse_config({"service": service, "pipelines": PIPELINES}, {}, "c")
    assert "hundred requests" in settings.remarks(told)[0]
    rare = parse_config({"service": {**service, "trigger": "5 s"}, "pipelines": PIPELINES}, {}, "c")
    assert not settings.remarks(rare)
