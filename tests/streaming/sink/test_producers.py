"""The producer against a real broker: batches are there once, in order, or not at all."""

import random
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka.errors import KafkaConnectionError, KafkaError

from streaming.arrow.schemas import HEADERS
from streaming.disciplines.plan import BatchContext
from streaming.errors import CheckpointBehind, Fenced, KafkaUnavailable
from streaming.kafka.choice import brokers_of, own_settings
from streaming.kafka.embedded import EmbeddedBroker
from streaming.kafka.topics import end_of
from streaming.service.decisions import CHANGED, Decisions
from streaming.service.histories import settle
from streaming.sink import outbox
from streaming.sink import producer as own
from streaming.sink import writer as writers
from streaming.sink.progress import BatchProgress, Part
from streaming.sink.refusals import RecordsRefused
from streaming.sink.writer import PartitionWriter, writer_for
from streaming.source.fetching import Fetching
from streaming.source.ranges import Range
from streaming.wire import brokers
from streaming.wire.brokers import Brokers
from streaming.wire.compression import COMPRESSIONS
from streaming.wire.fetched import tables
from tests.kafka_helpers import SECONDS_MAX, read_all
from tests.streaming.sink.numbered import make_plan, numbers, some_rows, values, write


@pytest.fixture
def plan(broker, topic_prefix):
    return make_plan(broker, topic_prefix, {})


def test_batch_after_batch(plan):
    for batch in range(4):
        writer = writer_for(plan, 0, BatchContext("q", batch, False, {0: batch - 1}))
        write(writer, batch, 100 * batch, 100)
        there = enumerate(numbers(100 * (batch + 1)))
        assert writer.ends() == {str(at): len(some) + batch for at, some in there}, "with markers"
    assert values(plan) == numbers(400)


def test_a_batch_that_is_written_is_skipped(plan):
    write(writer_for(plan, 0, BatchContext("q", 7, True)), 7, 0, 10)
    writers._writers.clear()
    assert isinstance(writer_for(plan, 0, BatchContext("q", 7, True)), BatchProgress)
    other = writer_for(plan, 0, BatchContext("another checkpoint", 7, True))
    assert other.forgotten
    assert values(plan) == numbers(10)


def test_a_transaction_that_was_left_open_is_ended_by_who_asks_for_the_progress(
    broker, topic_prefix
):
    """By itself Kafka would end it after ten minutes here, and says no progress before."""
    plan = make_plan(broker, topic_prefix, {"transaction.timeout.ms": 600_000})
    killed = writers.make_producer(plan, 0)
    killed.begin_session()
    killed.write(plan.output, *some_rows(0, 10))
    killed.send_progress(0, "q digest all")
    assert writers.make_producer(plan, 0).progress_left() == (-1, "")
    with pytest.raises(KafkaError):
        killed.finish()
    write(writer_for(plan, 0, BatchContext("q", 0, True)), 0, 0, 10)
    assert values(plan) == numbers(10)
    assert writers.make_producer(plan, 0).progress_left()[0] == 0


@pytest.mark.parametrize(("number", "digest"), [(7, "other"), (6, "this"), (5, "other")])
def test_progress_of_another_history_is_refused(plan, number, digest):
    """A restored checkpoint gives a batch's number to other input: nothing may be passed over."""
    written = BatchContext("q", 7, digest="this")
    with writer_for(plan, 0, written).batch(written):
        pass
    writers._writers.clear()
    with pytest.raises(CheckpointBehind, match=r"batch 7.*Nothing was written.*--accept-repeats"):
        writer_for(plan, 0, BatchContext("q", number, digest=digest))
    assert isinstance(writer_for(plan, 0, written), BatchProgress)
    assert isinstance(writer_for(plan, 0, BatchContext("q", 8, digest="other")), PartitionWriter)


def test_nobody_sees_a_batch_that_failed_and_it_can_be_written_again(plan):
    writer = writer_for(plan, 0, BatchContext("q", 0, False))

    def fail():
        with writer.batch(BatchContext("q", 0)):
            writer.producer.write(plan.output, *some_rows(0, 5_000))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    write(writer_for(plan, 0, BatchContext("q", 0, True)), 0, 0, 50)
    assert values(plan) == numbers(50)


def test_who_begins_later_fences_who_began_first(plan):
    first, second = PartitionWriter(plan, 0), PartitionWriter(plan, 0)
    assert not first.begin_session(BatchContext("q", 0))
    write(first, 0, 0, 30)
    assert second.begin_session(BatchContext("q", 0))
    with pytest.raises(Fenced):
        write(first, 1, 5_000, 30)
    write(second, 1, 30, 30)
    assert values(plan) == numbers(60)


def checkpoint_of(decided):
    """One whose batch 0 is in doubt; what is decided is put behind ``decided``."""
    told = {"batch_in_doubt": 0, "planned": 0, "done": -1, "query": "q"}
    return SimpleNamespace(
        lockable=False,
        logged=lambda _batch: b"0",
        logged_if_kept=lambda _batch: None,
        forget_later_state=lambda: None,
        sync_logs=lambda: None,
        ends=lambda _batch: {},
        newest_ms=lambda: 0,
        decisions=lambda: decided[-1],
        write_decisions=decided.append,
        **{name: lambda value=value: value for name, value in told.items()},
    )


@pytest.mark.parametrize("changed", [False, True])
def test_a_written_batch_that_has_other_records_now_is_taken_back(plan, changed):
    """Else it stays: its repeat is the same."""
    context, decided = BatchContext("q", 0, digest="d"), [{}]
    with writer_for(plan, 0, context).batch(context):
        pass
    writers._writers.clear()
    if changed:
        Decisions(checkpoint_of(decided)).add(0, {CHANGED: True})
    settle(plan, checkpoint_of(decided), lambda *_, **__: None, accept_repeats=True)
    renewals = decided[-1].get("renewals", [])
    assert bool(renewals) == changed
    if changed:
        with pytest.raises(CheckpointBehind):  # who stood still meanwhile
            PartitionWriter(plan, 0).begin_session(context)
    again = replace(context, decisions={"renewals": renewals})
    assert bool(PartitionWriter(plan, 0).begin_session(again)) != changed


def test_a_batch_that_was_written_in_part_goes_on_or_is_taken_back(broker, topic_prefix):
    plan = make_plan(broker, topic_prefix, {})
    context, part = BatchContext("q", 0, digest="d"), Part(total=30)
    writer = writer_for(plan, 0, context)

    def fail():
        with writer.batch(context):
            writer.producer.write(plan.output, *some_rows(0, 30))
            writer.end_part(context, part)
            writer.producer.write(plan.output, *some_rows(5_000, 30))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert values(plan) == numbers(30)
    again = PartitionWriter(plan, 0)
    assert not again.begin_session(context)
    assert again.part == part
    decided = [{}]
    checkpoint = checkpoint_of(decided)
    for accepted, found in ((False, part), (True, None)):
        settle(plan, checkpoint, lambda *_, **__: None, accept_repeats=accepted)
        again = PartitionWriter(plan, 0)
        renewals = {"renewals": decided[-1].get("renewals", [])}
        assert not again.begin_session(replace(context, decisions=renewals))
        assert again.part == found
    assert [batch for _, batch in decided[-1]["renewals"]] == [0], "it may give something else now"


def test_a_session_waits_for_what_another_one_left_open(plan):
    first, second = PartitionWriter(plan, 0), PartitionWriter(plan, 0)
    first.begin_session(BatchContext("q", 0))
    first.producer.write(plan.output, *some_rows(0, 3_000))
    first.producer.send_progress(5, "q  all")
    assert not second.begin_session(BatchContext("q", 5)), "the progress was not committed"
    write(second, 5, 0, 30)
    assert values(plan) == numbers(30)


def test_a_record_that_is_too_large_is_not_written(plan):
    noise = np.random.default_rng(0).bytes(1_500_000)
    table = pa.table(
        {"key": [b"k"], "value": [noise], "headers": pa.nulls(1, HEADERS), "timestamp": [1]}
    )
    writer = writer_for(plan, 0, BatchContext("q", 0, False))
    with pytest.raises((KafkaUnavailable, RecordsRefused)), writer.batch(BatchContext("q", 0)):
        writer.producer.write(plan.output, table, np.zeros(1, np.int32), [])
    knowing = BatchContext("q", 0, True, decisions={"refused": [[]]})
    write(writer_for(plan, 0, knowing), 0, 0, 10)
    assert values(plan) == numbers(10)


def test_a_transaction_that_took_too_long_is_not_mistaken_for_another_copy(broker, topic_prefix):
    plan = make_plan(broker, topic_prefix, {"transaction.timeout.ms": "100"})
    writer = writer_for(plan, 0, BatchContext("q", 0, False))

    def dawdle():
        with writer.batch(BatchContext("q", 0)):
            writer.producer.write(plan.output, *some_rows(0, 10))
            writer.producer._send()
            wait_for_the_broker_to_end_it(broker, plan.output)

    with pytest.raises(KafkaUnavailable, match=r"longer to write.*\(100 ms\)"):
        dawdle()
    write(writer_for(plan, 0, BatchContext("q", 0, True)), 0, 0, 10)
    assert values(plan) == numbers(10)


def wait_for_the_broker_to_end_it(broker, topic):
    """It looks for transactions that took too long every few seconds."""
    committed = {"group.id": topic, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, **committed})
    deadline = time.monotonic() + SECONDS_MAX
    try:
        while not end_of(consumer, TopicPartition(topic, 0)):
            assert time.monotonic() < deadline, "the transaction is still open"
            time.sleep(0.1)
    finally:
        consumer.close()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_every_compression_can_be_read(broker, topic_prefix, compression):
    """The broker looks into each batch, too: with Java's library."""
    plan = make_plan(broker, topic_prefix, {"compression.type": compression})
    write(writer_for(plan, 0, BatchContext("q", 0, False)), 0, 0, 5_000)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic_prefix})
    consumer.assign([TopicPartition(plan.output, 0, 0)])
    found, first = [], numbers(5_000)[0]
    while len(found) < len(first):
        left = len(first) - len(found)
        found += [int(message.value()) for message in consumer.consume(left, 30)]
    consumer.close()
    assert found == first
    expected = numbers(5_000)[1]
    connections = brokers_of(own_settings(plan.producer))
    fetched = Fetching(connections, [Range(plan.output, 0, 1, 0, len(expected))])
    read = [table["value"].to_pylist() for table in tables(fetched, 2**20)]
    assert [int(value) for values in read for value in values] == expected


def test_without_transactions(broker, topic_prefix):
    plan = make_plan(broker, topic_prefix, {}, delivery="at-least-once")
    for batch in range(3):
        writer = writer_for(plan, 0, BatchContext("q", batch, False, {0: batch - 1}))
        write(writer, batch, 50 * batch, 50)
    assert values(plan, isolation="read_uncommitted") == numbers(150)


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_connections_break_at_any_moment(broker, topic_prefix, monkeypatch, delivery):
    """Requests and answers are lost half-way; what was sent again is there once, in order."""
    plan = make_plan(broker, topic_prefix, {}, delivery=delivery)
    rng = random.Random(5)
    monkeypatch.setattr(own, "SENT_BYTES_MIN", 1)
    turn = Brokers.turn
    broken = 0

    def turned(those, seconds):
        nonlocal broken
        if rng.random() < 0.1:
            broken += 1
            for connection in list(those.manager._conns.values()):
                connection.close(KafkaConnectionError("cut by the test"))
        turn(those, seconds * rng.random())

    monkeypatch.setattr(Brokers, "turn", turned)
    for batch in range(6):
        writer = writer_for(plan, 0, BatchContext("q", batch, False, {0: batch - 1}))
        with writer.batch(BatchContext("q", batch)):
            for part in range(5):
                writer.producer.write(plan.output, *some_rows(500 * batch + 100 * part, 100))
    assert broken > 5
    assert values(plan) == numbers(3_000)


def test_the_broker_is_killed_in_the_middle_of_a_batch(topic_prefix, tmp_path, monkeypatch):
    """It is back within the limit: the batch goes on as if nothing had been."""
    for module in (brokers, outbox):
        monkeypatch.setattr(module, "SECONDS_MAX", 200)
    with EmbeddedBroker(tmp_path / "kafka") as broker:
        plan = make_plan(broker, topic_prefix, {"transaction.timeout.ms": "300000"})
        for batch in range(2):
            writer = writer_for(plan, 0, BatchContext("q", batch, False, {0: batch - 1}))
            with writer.batch(BatchContext("q", batch)):
                writer.producer.write(plan.output, *some_rows(100 * batch, 50))
                writer.producer._send()
                broker.kill()
                back = threading.Thread(target=broker.start)
                back.start()
                writer.producer.write(plan.output, *some_rows(100 * batch + 50, 50))
            back.join()
        assert values(plan) == numbers(200)
        assert PartitionWriter(plan, 0).begin_session(BatchContext("q", 1))


def test_odd_headers_keys_and_values_are_read_by_two_clients(broker, topic_prefix):
    plan = make_plan(broker, topic_prefix, {})
    headers = [("a\0b", b"1"), ("é" * 100, None), ("", b""), ("same", b"1"), ("same", b"\xff\0")]
    pairs = [{"key": name, "value": value} for name, value in headers]
    table = pa.table(
        {
            "key": pa.array([b"", None, b"\0" * 300], pa.binary()),
            "value": pa.array([None, b"", b"x" * 100_000], pa.binary()),
            "headers": pa.array([pairs, None, []], HEADERS),
            "timestamp": pa.array([0, 1_700_000_000_000, 5]),
        }
    )
    with writer_for(plan, 0, BatchContext("q", 0, False)).batch(BatchContext("q", 0)):
        writers._writers[plan.transactional_id(0)].producer.write(
            plan.output, table, np.zeros(3, np.int32), [("é", pa.array([None, 1, 2**62]))]
        )
    big = [("é", b"%d" % 2**62)]
    expected = [
        (0, b"", None, headers),
        (1_700_000_000_000, None, b"", [("é", b"1")]),
        (5, b"\0" * 300, b"x" * 100_000, big),
    ]
    found = read_all(broker.bootstrap, plan.output)
    assert [(r.timestamp, r.key, r.value, r.headers) for r in found] == expected

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": topic_prefix})
    consumer.assign([TopicPartition(plan.output, 0, 0)])
    messages = []
    while len(messages) < 3:
        messages += consumer.consume(3 - len(messages), 30)
    consumer.close()
    assert [m.timestamp()[1] for m in messages] == [0, 1_700_000_000_000, 5]
    assert [(m.key(), m.value()) for m in messages] == [e[1:3] for e in expected]
    # confluent-kafka itself cuts names at NUL when it reads.
    assert messages[0].headers()[1:] == headers[1:]
    assert [m.headers() for m in messages[1:]] == [e[3] for e in expected[1:]]


def test_a_timeout_of_transactions_that_brokers_do_not_allow(broker, topic_prefix):
    plan = make_plan(broker, topic_prefix, {"transaction.timeout.ms": "10000000"})
    with pytest.raises(KafkaUnavailable, match=r"Write less for transaction\.timeout\.ms"):
        PartitionWriter(plan, 0).begin_session(BatchContext("q", 0, False))
