"""Leaders move while a request to the old one is unanswered: three brokers, slow answers."""

import uuid

import numpy as np
import pyarrow as pa
import pytest

from streaming.arrow.schemas import HEADERS
from streaming.disciplines.plan import BatchContext, Plan
from streaming.sink import producer as own
from streaming.sink.writer import PartitionWriter
from tests.kafka_cluster import KafkaCluster
from tests.kafka_helpers import read_all, until
from tests.proxies import Proxies

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    with KafkaCluster() as started:
        yield started


def rows(text):
    column = {"key": pa.array([b"k"]), "value": pa.array([text.encode()])}
    return pa.table({**column, "headers": pa.nulls(1, HEADERS), "timestamp": pa.array([0])})


def put(writer, text, partition):
    writer.producer.write("T", rows(text), np.array([partition], np.int32), [])


def writer_not_coordinated_by(bootstrap, node):
    while True:
        plan = Plan(
            service=uuid.uuid4().hex,
            pipeline="p",
            inputs=("in",),
            output="T",
            rejects="T",
            events="events",
            partitions={"T": 2, "events": 1},
            producer={"bootstrap.servers": bootstrap},
        )
        writer = PartitionWriter(plan, 0)
        writer.begin_session(BatchContext("q", 0, False))
        known = writer.producer.brokers.coordinators  # which writers share
        if node not in [of for (_, name), of in known.items() if name.startswith(plan.service)]:
            return writer


def test_a_committed_transaction_has_every_record(cluster, monkeypatch):
    """At the end of a rolling restart leaders go back to their preferred brokers."""
    monkeypatch.setattr(own, "SENT_BYTES_MIN", 1)
    cluster.create_topic("T", [[2, 1, 3], [2, 3, 1]])
    cluster.create_topic("events", [[1, 2, 3]])
    cluster.brokers[2].stop()
    until(lambda: cluster.leaders("T") == {0: 1, 1: 3}, "other leaders")
    cluster.brokers[2].start()
    with Proxies(cluster.bootstrap) as proxies:
        writer = writer_not_coordinated_by(proxies.bootstrap, 1)
        outbox = writer.producer.outbox
        with writer.batch(BatchContext("q", 0, False)):
            put(writer, "first 0", 0)
            put(writer, "first 1", 1)
        with writer.batch(BatchContext("q", 1, False)):
            slow = proxies.hold("Produce", answers=True, node=1)
            put(writer, "A", 0)
            until(lambda: [outbox.poll(0.05), slow.seen][1], "an answer")
            put(writer, "B", 0)
            put(writer, "C", 0)
            cluster.elect_preferred("T")
            put(writer, "X", 1)  # its leader of before says who leads now
            until(lambda: [outbox.poll(0.05), not outbox.waiting["T", 1]][1], "X")
            slow.release()
    found = [(each.partition, each.value.decode()) for each in read_all(cluster.bootstrap, "T")]
    assert found == [(0, "first 0"), (0, "A"), (0, "B"), (0, "C"), (1, "first 1"), (1, "X")]
