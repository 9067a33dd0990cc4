"""A Spark standalone cluster whose hosts lack the project: all disciplines, through kill -9."""

import os
import signal
import subprocess
import time

import pytest

from tests.cluster import ARCHIVE, Standalone, run_on
from tests.faults.clusters import Traffic
from tests.service_helpers import Service, called, inspect, verify

LIMIT_S = 400


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Standalone(tmp_path_factory.mktemp("standalone")) as standalone:
        yield standalone


@pytest.fixture
def traffic(broker, cluster, tmp_path):
    """Traffic for a service on the cluster, which has an archive."""
    made = Traffic(broker, tmp_path)
    run_on(made.config, cluster.spark(packed(cluster, made.config)))
    return made


def packed(cluster, config):
    """The archive of `sequencer pack`, made once."""
    archive = cluster.folder / ARCHIVE
    if not archive.exists():
        code, out, err = called("pack", config, "-o", archive)
        assert code == 0, err
        assert f"{archive}#workers" in out
    return archive


def kill_executor(cluster):
    """kill -9 of one executor; returns when it is gone."""
    (pid, *_) = [each for worker in cluster.workers for each in worker.executors()]
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + LIMIT_S
    while any(pid in worker.executors() for worker in cluster.workers):
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.timeout(1500)
def test_an_executor_is_killed(cluster, traffic):
    traffic.send(30)
    with Service(traffic.config) as service:
        service.until(lambda: traffic.moved_since({}), LIMIT_S)
        kill_executor(cluster)
        traffic.send(30)
        service.until(traffic.done, LIMIT_S)
        assert service.stop() == 0, service.said()
    code, said = verify(traffic.config)
    assert code == 0, said


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_an_executor_a_worker_and_the_driver_are_killed(cluster, traffic):
    for kill in (kill_executor, kill_worker, None):
        traffic.send(20)
        before = traffic.delivered()
        with Service(traffic.config) as service:
            service.until(lambda known=before: traffic.moved_since(known), LIMIT_S)
            if kill is None:
                service.kill()
            else:
                kill(cluster)
                traffic.send(20)
                service.until(traffic.done, LIMIT_S)
                assert service.stop() == 0, service.said()
    traffic.send(5)
    with Service(traffic.config) as service:
        service.until(traffic.done, LIMIT_S)
        assert service.stop() == 0, service.said()
    code, said = verify(traffic.config)
    assert code == 0, said


def kill_worker(cluster):
    """kill -9 of one worker with its executors; another one takes its place."""
    cluster.workers.pop(0).kill()
    cluster.add_worker()


WRONG = {
    "no archive": ({"spark.archives": "", "spark.executorEnv.PYTHONPATH": ""}, "no module"),
    "no python": ({"spark.pyspark.python": "/no/python"}, "no Python at /no/python"),
    "no number": ({"spark.task.cpus": "many"}, "Spark does not start"),
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
            second.until(
                lambda: f"Waiting for 2 core(s) of {cluster.url}" in second.said(), LIMIT_S
            )
            assert inspect(traffic.config, "--pipeline", "channels")["channels"]
            assert second.stop() == 0, second.said()
        assert first.stop() == 0, first.said()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_folder_that_hosts_do_not_share_is_refused(broker, tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    alone = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs none "{folder}" && exec "$@"', "sh")
    tried = subprocess.run([*alone, "true"], capture_output=True, check=False, timeout=60)
    if tried.returncode:
        pytest.skip("this user may not mount a folder of its own, as another host would have")
    made = Traffic(broker, tmp_path, checkpoint=str(folder))
    (tmp_path / "cluster").mkdir()
    with Standalone(tmp_path / "cluster", workers=1) as other:
        other.add_worker(prefix=alone)
        spark = other.spark(packed(other, made.config)) | {"spark.cores.max": "2"}
        run_on(made.config, spark)
        with Service(made.config) as service:
            assert service.wait(LIMIT_S) == 2, service.said()
            assert "is not the same on all hosts" in service.said()
