"""A checkpoint on an S3 endpoint: kill -9 of the driver, and two copies of the service."""

import pytest

from streaming.arrow.histograms import BOUNDS, DISPLACED
from streaming.config import load_config
from streaming.errors import ConfigError
from streaming.service.checkpoint import Checkpoint, Identity
from tests.cluster import run_on
from tests.faults.clusters import Traffic
from tests.s3 import BUCKET, Endpoint
from tests.service_helpers import Service, called_json, status, verify, write_config

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
LIMIT_S = 300
LOCAL = {"spark.master": "local[2]", "spark.driver.memory": "1g"}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    with Endpoint(tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture
def traffic(broker, endpoint, tmp_path):
    made = Traffic(broker, tmp_path, checkpoint=f"s3a://{BUCKET}/{tmp_path.name}", trigger="1 s")
    run_on(made.config, {**LOCAL, **endpoint.spark()})
    return made


def test_the_services_own_files(endpoint, tmp_path):
    folder = f"s3a://{BUCKET}/own"
    config = write_config(tmp_path, "localhost:9", {"p": {}}, checkpoint=folder)
    run_on(config, endpoint.spark())
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
    checkpoint.forget()
    assert checkpoint.identity() is None


def test_the_driver_is_killed(endpoint, traffic, tmp_path):
    for _ in range(2):
        traffic.send(20)
        before = traffic.delivered() if status(traffic.config) else {}
        with Service(traffic.config) as service:
            service.until(lambda known=before: traffic.moved_since(known), LIMIT_S)
            service.kill()
    traffic.send(5)
    with Service(traffic.config) as service:
        service.until(traffic.done, LIMIT_S)
        assert service.stop() == 0, service.said()
    code, said = verify(traffic.config)
    assert code == 0, said
    kept = Checkpoint(f"s3a://{BUCKET}/{tmp_path.name}", "channels", endpoint.spark())
    assert kept.batch_in_doubt() == -1


def test_the_newer_of_two_copies_goes_on(traffic):
    traffic.send(20)
    with Service(traffic.config) as first:
        first.until(traffic.done, LIMIT_S)
        with Service(traffic.config) as second:
            second.until(lambda: "pipeline(s) running" in second.said(), LIMIT_S)
            traffic.send(20)
            assert first.wait(LIMIT_S) == 1, first.said()
            assert "Another copy of this service" in first.said()
            second.until(traffic.done, LIMIT_S)
            assert second.stop() == 0, second.said()
    code, said = verify(traffic.config)
    assert code == 0, said
