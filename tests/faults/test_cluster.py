"""A Spark standalone cluster whose hosts lack the project: all disciplines, through kill -9."""

import os
import signal
import time

import pytest

from tests.cluster import ARCHIVE, Standalone, run_on
from tests.faults.clusters import Traffic
from tests.service_helpers import Service, called, verify

LIMIT_S = 240


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


@pytest.mark.timeout(900)
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
