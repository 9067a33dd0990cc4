"""A Spark standalone cluster whose hosts lack the project: all disciplines, through kill -9."""

import os
import signal
import subprocess

import pytest

from tests.cluster import Standalone, run_on
from tests.faults.clusters import (
    LIMIT_S,
    Traffic,
    kill_executor,
    kill_service,
    kill_worker,
    packed,
)
from tests.service_helpers import Service, inspect


@pytest.fixture
def traffic(broker, cluster, tmp_path):
    """Traffic for a service on the cluster, which has an archive."""
    made = Traffic(broker, tmp_path)
    run_on(made.config, cluster.spark(packed(cluster, made.config)))
    return made


@pytest.mark.timeout(1500)
def test_an_executor_is_killed(cluster, traffic):
    traffic.through(lambda _: kill_executor(cluster), 30)
    traffic.judge()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_executor_a_worker_and_the_driver_are_killed(cluster, traffic):
    traffic.through(lambda _: kill_executor(cluster))
    traffic.through(lambda _: kill_worker(cluster))
    traffic.through(kill_service)
    traffic.send(5)
    traffic.finish()


WRONG = {
    "no archive": ({"spark.archives": "", "spark.executorEnv.PYTHONPATH": ""}, "no module"),
    "no python": ({"spark.pyspark.python": "/no/python"}, "no Python at /no/python"),
    "no number": ({"spark.task.maxFailures": "many"}, "Spark does not start"),
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", WRONG)
def test_what_executors_lack_is_named(cluster, traffic, name):
    wrong, message = WRONG[name]
    spark = cluster.spark(packed(cluster, traffic.config)) | wrong
    run_on(traffic.config, {name: value for name, value in spark.items() if value})
    with Service(traffic.config) as service:
        assert service.wait(LIMIT_S) == 2, service.said()
        told = service.said()
    assert message in told
    assert "Traceback" not in told[told.rindex("sequencer: ") :]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_service_without_cores_says_so_and_stops_at_once(broker, cluster, traffic, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    later = Traffic(broker, other)
    run_on(later.config, cluster.spark(packed(cluster, later.config)))
    traffic.send(5)
    with Service(traffic.config) as first:
        first.until(traffic.done, LIMIT_S)
        with Service(later.config) as second:
            second.until(lambda: f"Waiting for 2 cores of {cluster.url}" in second.said(), LIMIT_S)
            assert inspect(traffic.config, "--pipeline", "channels")["channels"]
            assert second.stop() == 0, second.said()
        assert first.stop() == 0, first.said()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_master_that_forgot_the_service_ends_it(broker, tmp_path):
    made = Traffic(broker, tmp_path)
    with Standalone(tmp_path, workers=1) as other:
        run_on(made.config, other.spark(packed(other, made.config)))
        made.send(5)
        with Service(made.config) as service:
            service.until(made.done, LIMIT_S)
            other.restart_master()
            made.send(5)
            assert service.wait(LIMIT_S) == 1, service.said()
            assert "All executors are lost" in service.said()
        made.finish()


def alone(folder):
    """The words in front of a worker that has another folder in place of this one; or skips."""
    words = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs none "{folder}" && exec "$@"', "sh")
    tried = subprocess.run([*words, "true"], capture_output=True, check=False, timeout=60)
    if tried.returncode:
        pytest.skip("this user may not mount a folder of its own, as another host would have")
    return words


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_host_without_the_folder_that_comes_later_writes_nothing(broker, tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    prefix = alone(folder)
    made = Traffic(broker, tmp_path, checkpoint=str(folder), state_partitions=2, shards=4)
    with Standalone(tmp_path, workers=1) as other:
        spark = other.spark(packed(other, made.config)) | {"spark.cores.max": "2"}
        run_on(made.config, spark)
        with Service(made.config) as service:
            service.until(lambda: "pipelines running" in service.said(), LIMIT_S)
            (first,) = other.workers[0].executors()
            os.kill(first, signal.SIGSTOP)  # so there are tasks of the first batch for the other
            worker = other.add_worker(prefix=prefix)
            service.until(lambda: "it is not the driver's folder there" in service.said(), LIMIT_S)
            worker.kill()
            os.kill(first, signal.SIGCONT)
            made.send(20)
            service.until(made.done, LIMIT_S)
            assert service.stop() == 0, service.said()
    made.judge()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_folder_that_hosts_do_not_share_is_refused(broker, tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    prefix = alone(folder)
    made = Traffic(broker, tmp_path, checkpoint=str(folder))
    (tmp_path / "cluster").mkdir()
    with Standalone(tmp_path / "cluster", workers=1) as other:
        other.add_worker(prefix=prefix)
        spark = other.spark(packed(other, made.config)) | {"spark.cores.max": "2"}
        run_on(made.config, spark)
        with Service(made.config) as service:
            assert service.wait(LIMIT_S) == 2, service.said()
            assert "is not the same on all hosts" in service.said()
