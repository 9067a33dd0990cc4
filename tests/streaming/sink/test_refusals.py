"""What Kafka refuses for good, against a real broker: which records, and what becomes of the others."""

import time
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest

from streaming.arrow.schemas import HEADERS
from streaming.disciplines.plan import BatchContext, Plan
from streaming.errors import KafkaUnavailable
from streaming.sink import producer as own
from streaming.sink import writer as writers
from streaming.sink.parts import Parts
from streaming.sink.refusals import RecordsRefused
from streaming.sink.writer import writer_for
from tests.kafka_helpers import create_topics, make_topic, read_all

LIMIT = 40_000
AHEAD_MS = 7_200_000


@pytest.fixture(autouse=True)
def _no_writers(monkeypatch):
    monkeypatch.setattr(writers, "_writers", {})


@pytest.fixture
def plan_for(broker, topic_prefix):
    """Gives a function that makes a plan whose output has settings."""

    def make(delivery="exactly-once", compression="lz4", **settings):
        out, events = f"{topic_prefix}out", f"{topic_prefix}events"
        make_topic(broker.bootstrap, out, 2, **settings)
        create_topics(broker.bootstrap, {events: 1})
        return Plan(
            service=topic_prefix + "service",
            pipeline="p",
            inputs=("in",),
            output=out,
            rejects="rejects",
            events=events,
            partitions={out: 2, events: 1},
            delivery=delivery,
            producer={"bootstrap.servers": broker.bootstrap, "compression.type": compression},
        )

    return make


def noise(size):
    return np.random.default_rng(size).bytes(size)


def rows(values, *, keys=None, stamps=None):
    count = len(values)
    now_ms = round(time.time() * 1000)
    return pa.table(
        {
            "key": pa.array(keys or [b"k"] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.nulls(count, HEADERS),
            "timestamp": pa.array(stamps or [now_ms] * count),
        }
    )


def write(plan, batch, *tables, partition=0, runs=0):
    """Write tables as one batch: what was refused of it, by the number that is its header.

    ``runs``: how many found records that are refused.
    """
    context = BatchContext("q", batch, wrote={0: batch - 1}, decisions={"refused": [[]] * runs})
    writer = writer_for(plan, 0, context)
    number = 0
    try:
        with writer.batch(context):
            for table in tables:
                numbers = pa.array(range(number, number + len(table)))
                number += len(table)
                places = np.full(len(table), partition, np.int32)
                writer.producer.write(plan.output, table, places, [("number", numbers)])
    except RecordsRefused as refused:
        return {int(each.headers["number"]): each for each in refused.refusals}
    return {}


def values(plan, isolation="read_committed"):
    return [r.value for r in read_all(plan.producer["bootstrap.servers"], plan.output, isolation)]


def test_one_record_that_is_too_large_is_found_among_many(plan_for):
    plan = plan_for(max_message_bytes=LIMIT)
    sizes = [100] * 30
    sizes[7] = sizes[21] = LIMIT + 1
    refused = write(plan, 0, rows([noise(size) for size in sizes]))
    assert sorted(refused) == [7, 21]
    for each in refused.values():
        assert (each.topic, each.why, each.key) == (plan.output, "too-large", b"k")
        assert each.detail.startswith("MESSAGE_TOO_LARGE")
    assert values(plan) == [], "the transaction is aborted"
    good = [noise(size) for size in sizes if size == 100]
    with pytest.raises(KafkaUnavailable, match="found records that Kafka refuses"):
        write(plan, 0, rows(good))
    assert write(plan, 0, rows(good), runs=1) == {}
    assert values(plan) == good


def test_batches_that_are_too_large_are_split_and_stay_in_order(plan_for):
    """A topic may take less than a batch of ours: what it takes alone is no reject."""
    plan = plan_for(max_message_bytes=LIMIT)
    sent = [noise(3_000 + n) for n in range(100)]
    assert write(plan, 0, rows(sent[:60]), rows(sent[60:])) == {}
    assert values(plan) == sent


@pytest.mark.parametrize("compression", ["lz4", "none"])
def test_what_kafka_takes_is_not_refused(plan_for, compression):
    """To the byte: every size around the limit is taken, or refused, as Kafka says."""
    plan = plan_for(max_message_bytes=LIMIT, compression=compression)
    sent = [noise(size) for size in range(LIMIT - 130, LIMIT - 60)]
    refused = write(plan, 0, rows(sent))
    assert 0 < len(refused) < len(sent)
    assert sorted(refused) == [*range(min(refused), len(sent))]
    assert write(plan, 0, rows(sent[: min(refused)]), runs=1) == {}
    assert values(plan) == sent[: min(refused)]


def test_timestamps_that_are_too_far_ahead_are_named(plan_for):
    plan = plan_for()
    now_ms = round(time.time() * 1000)
    stamps = [now_ms + AHEAD_MS * (n in (3, 4, 40)) for n in range(50)]
    refused = write(plan, 0, rows([b"%d" % n for n in range(50)], stamps=stamps))
    assert sorted(refused) == [3, 4, 40]
    assert {each.why for each in refused.values()} == {"refused"}
    assert "INVALID_TIMESTAMP: " in refused[3].detail
    assert refused[3].timestamp == stamps[3]


def test_null_keys_on_a_compacted_topic_are_named(plan_for):
    plan = plan_for(cleanup_policy="compact")
    keys = [b"k", None, b"k", None]
    refused = write(plan, 0, rows([b"a", b"b", b"c", b"d"], keys=keys))
    assert sorted(refused) == [1, 3]
    assert refused[1].detail.startswith("INVALID_RECORD: ")
    assert refused[1].key is None


def test_refused_ones_of_all_partitions_and_tables_are_known_at_the_end(plan_for, monkeypatch):
    monkeypatch.setattr(own, "SENT_BYTES_MIN", 1)
    plan = plan_for(max_message_bytes=LIMIT)
    table = rows([b"a", noise(LIMIT), b"b"])
    assert sorted(write(plan, 0, table, table, table)) == [1, 4, 7]


def test_without_transactions_nothing_is_written_behind_a_refused_one(plan_for, monkeypatch):
    """What comes behind has a lower number in the next run."""
    monkeypatch.setattr(own, "SENT_BYTES_MIN", 1)
    plan = plan_for("at-least-once")
    now_ms = round(time.time() * 1000)
    stamps = [now_ms + AHEAD_MS * (n in (5, 7)) for n in range(10)]
    table = rows([b"%d" % n for n in range(10)], stamps=stamps)
    assert sorted(write(plan, 0, table, table)) == [5]
    assert values(plan) == [b"%d" % n for n in range(5)]


def test_without_transactions_large_ones_likewise(plan_for):
    plan = plan_for("at-least-once", max_message_bytes=LIMIT)
    sent = [b"a", b"b", noise(LIMIT), b"c", noise(LIMIT + 1)]
    assert sorted(write(plan, 0, rows(sent))) == [2]
    assert values(plan) == sent[:2]


def test_without_transactions_events_wait_for_the_run_that_is_right(plan_for):
    """Events of a run that is not the last would name numbers that deliveries do not get."""
    plan = plan_for("at-least-once", max_message_bytes=LIMIT)
    bootstrap = plan.producer["bootstrap.servers"]
    for sent, runs in (([b"0", noise(LIMIT + 1), b"1"], 0), ([b"0", b"1"], 1)):
        context = BatchContext("q", 0, decisions={"refused": [[]] * runs})
        writer = writer_for(plan, 0, context)
        parts = Parts(writer, context)
        with suppress(RecordsRefused), writer.batch(context):
            parts.write(0, plan.output, rows(sent))
            parts.write(0, plan.events, rows([b"run %d" % runs]))
            parts.finish()
    assert [each.value for each in read_all(bootstrap, plan.events)] == [b"run 1"]
