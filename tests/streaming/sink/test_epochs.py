"""A transactional id whose epochs are used up: Kafka gives it another producer, nothing is lost."""

import numpy as np
import pyarrow as pa
import pytest

from streaming.arrow.schemas import HEADERS
from streaming.disciplines.plan import BatchContext
from streaming.sink.writer import PartitionWriter
from tests.kafka_helpers import read_all
from tests.streaming.sink.numbered import make_plan

EPOCH_MAX = 32_767
SESSIONS = 16
"""About the end of the epochs; a batch is written in each."""


def write(writer, number):
    column = {"key": pa.array([b"k"]), "value": pa.array([b"%d" % number])}
    rows = pa.table({**column, "headers": pa.nulls(1, HEADERS), "timestamp": pa.array([0])})
    writer.begin_session(BatchContext("q", number, False))
    with writer.batch(BatchContext("q", number, False)):
        writer.producer.write(writer.plan.output, rows, np.array([0], np.int32), [])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_sessions_go_on_behind_the_last_epoch(broker, topic_prefix):
    plan = make_plan(broker, topic_prefix, count=1)
    writer = PartitionWriter(plan, 0)
    writer.begin_session(BatchContext("q", 0, False))
    while writer.producer.producer[1] < EPOCH_MAX - SESSIONS // 2:
        writer.producer.begin_session()
    producers = []
    for number in range(SESSIONS):
        write(writer, number)
        producers.append(writer.producer.producer)
    assert len({producer for producer, _ in producers}) == 2, producers
    assert len(set(producers)) == SESSIONS
    found = [int(each.value) for each in read_all(broker.bootstrap, plan.output)]
    assert found == [*range(SESSIONS)]
