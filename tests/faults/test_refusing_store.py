"""A checkpoint on S3 whose store refuses some writes for a while: nothing is lost in silence."""

import random

import pytest

from tests.cluster import run_on
from tests.faults.channels import some_messages
from tests.faults.clusters import KEYS, LIMIT_S
from tests.kafka_helpers import create_topics, produce
from tests.service_helpers import Service, channel_topics, status, verify, write_config
from tests.storages import S3

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
LOCAL = {"spark.master": "local[2]", "spark.driver.memory": "1g"}


@pytest.fixture
def s3(tmp_path):
    with S3(tmp_path) as started:
        yield started


@pytest.mark.parametrize("kind", ["offsets", "commits", "state"])
def test_writes_are_refused_for_a_while(s3, broker, tmp_path, kind):
    """Then the service goes on, or ends; another start has all that it needs."""
    topics, rng = channel_topics(f"refusing-{kind}."), random.Random(4)
    create_topics(broker.bootstrap, dict.fromkeys(topics.values(), 1))
    how = {"checkpoint": s3.uri("p"), "shards": 2, "state_partitions": 2}
    config = write_config(tmp_path, broker.bootstrap, {"p": topics}, **how)
    run_on(config, {**LOCAL, **s3.spark()})
    sent = 0

    def send(labels):
        nonlocal sent
        produce(broker.bootstrap, topics["input"], some_messages(sent, labels, rng, KEYS))
        sent += labels

    def done():
        return status(config)["p"]["delivered"] == sent * len(KEYS)

    send(5)
    with Service(config) as service:
        service.until(done, LIMIT_S)
        s3.refuse(f"/{kind}/")
        send(5)
        service.until(lambda: s3.refusals() or service.poll() is not None, LIMIT_S)
        send(5)
        service.poll(30)
        service.kill()
        said = service.said()
    s3.refuse("")
    assert f"did not take p/p/{kind}/" in said
    send(5)
    with Service(config) as service:
        service.until(done, LIMIT_S)
        assert service.stop() == 0, service.said()
    code, said = verify(config)
    assert code == 0, said
