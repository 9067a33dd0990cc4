"""Rows that say where they go and in which order, for producers before a real broker."""

import numpy as np
import pyarrow as pa

from streaming.arrow.schemas import HEADERS
from streaming.disciplines.plan import BatchContext, Plan
from tests.kafka_helpers import create_topics, read_all

PARTITIONS = 3


def make_plan(broker, prefix, properties=None, count=PARTITIONS, **more):
    """A plan with new topics; ``count``: the partitions of its output."""
    out, events = f"{prefix}out", f"{prefix}events"
    partitions = {out: count, events: 1}
    create_topics(broker.bootstrap, partitions)
    given = {"producer": {"bootstrap.servers": broker.bootstrap, **(properties or {})}, **more}
    return Plan(
        service=prefix + "service",
        pipeline="p",
        inputs=("in",),
        output=out,
        rejects=f"{prefix}rejects",
        events=events,
        partitions=partitions,
        **given,
    )


def some_rows(first, count):
    """Rows that say where they go and in which order: value n goes to partition n mod 3."""
    numbers = range(first, first + count)
    table = pa.table(
        {
            "key": pa.array([b"k%d" % n for n in numbers]),
            "value": pa.array([b"%d" % n for n in numbers]),
            "headers": pa.array([[{"key": "own", "value": b"%d" % n}] for n in numbers], HEADERS),
            "timestamp": pa.array(range(first + 1, first + count + 1)),
        }
    )
    partitions = np.array(numbers, np.int32) % PARTITIONS
    return table, partitions, [("number", pa.array(numbers))]


def write(writer, batch, first, count, query="q"):
    with writer.batch(BatchContext(query, batch)):
        writer.producer.write(writer.plan.output, *some_rows(first, count))


def values(plan, **settings):
    """By partition, the values of a topic."""
    records = read_all(plan.producer["bootstrap.servers"], plan.output, **settings)
    for record in records:
        number = int(record.value)
        assert record.headers == [("own", record.value), ("number", record.value)]
        assert record.key == b"k" + record.value
        assert record.timestamp == number + 1
    return [[int(r.value) for r in records if r.partition == p] for p in range(PARTITIONS)]


def numbers(count):
    return [list(range(p, count, PARTITIONS)) for p in range(PARTITIONS)]
