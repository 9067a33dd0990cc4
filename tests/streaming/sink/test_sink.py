"""The sink over an operator's rows, in this process, against a real broker."""

import json
import random
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from streaming.arrow.histograms import BOUNDS, LATENCY_MS
from streaming.arrow.ipc import from_ipc, to_ipc
from streaming.arrow.schemas import HEADERS
from streaming.disciplines.plan import BatchContext, Headers
from streaming.errors import (
    CheckpointBehind,
    KafkaUnavailable,
    ProgressMissing,
    SequencerError,
    StorageUnavailable,
)
from streaming.sink import producer, writer
from streaming.sink.progress import BatchProgress, hashed
from streaming.sink.sink import Report, Sink, Written
from tests.kafka_helpers import SECONDS_MAX, make_topic, read_all, wait_for_records
from tests.streaming.sink.numbered import make_plan

OUTPUT = pa.schema(
    [
        ("shard", pa.int32()),
        ("topic", pa.string()),
        ("rows", pa.binary()),
        ("totals", pa.string()),
        ("wrote_before", pa.bool_()),
    ]
)

AGE_MS = 7000
PARTITION = 1


def reset_offsets(bootstrap, group, topic, offset):
    """What `kafka-consumer-groups --reset-offsets` does."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, offset)])
    (done,) = admin.alter_consumer_group_offsets([wanted]).values()
    done.result(SECONDS_MAX)


@pytest.fixture
def plan(broker, topic_prefix, monkeypatch):
    """A plan; no writers are left of other tests."""
    monkeypatch.setattr(writer, "_writers", {})
    return make_plan(broker, topic_prefix, count=2, create_topics=True)


def row(shard, topic, first, count, *, totals="", wrote_before=False):
    numbers = range(first, first + count)
    table = pa.table(
        {
            "key": pa.array([b"k"] * count, pa.binary()).dictionary_encode(),
            "value": pa.array([b"%d" % n for n in numbers], pa.binary()),
            "headers": pa.nulls(count, HEADERS),
            "timestamp": pa.array([round(time.time() * 1000) - AGE_MS] * count),
            "sequence": pa.array(numbers),
            "header:key": pa.array([b"own"] * count),
        }
    )
    blob = to_ipc(table) if topic else b""
    return pa.RecordBatch.from_pylist(
        [
            {
                "shard": shard,
                "topic": topic,
                "rows": blob,
                "totals": totals,
                "wrote_before": wrote_before,
            }
        ],
        OUTPUT,
    )


def run(plan, rows, context):
    return Sink(plan).run(context, PARTITION, iter(rows))


def test_rows_are_written_as_they_come_and_the_totals_told(plan, broker, monkeypatch):
    monkeypatch.setattr(producer, "SENT_BYTES_MIN", 1)
    sent = []

    def rows():
        yield row(3, "", 0, 0, totals=json.dumps({"in": 0}))
        yield row(4, plan.output, 0, 50)
        (kept,) = writer._writers.values()
        sent.append(sum(kept.producer.outbox.sequences.values()))
        yield row(4, plan.rejects, 50, 5, totals=json.dumps({"in": 50}))
        yield row(5, plan.output, 50, 50, totals=json.dumps({"in": 55}))

    told = run(plan, rows(), BatchContext("q", 0, False))
    assert sent == [50], "the first row was encoded and given away before the second was asked for"
    assert [(shard, json.loads(totals)["in"]) for shard, totals in told.totals] == [
        (3, 0), (4, 50), (5, 55),
    ]  # fmt: skip
    assert (told.partition, told.wrote) == (PARTITION, True)
    counts = told.written
    assert (counts.transactions, counts.found) == (1, 0)
    assert sum(counts.latency_ms[:-1]) == 100, "deliveries are measured, rejects are not"
    assert counts.latency_ms[-1] >= 100 * AGE_MS
    quick = sum(each < AGE_MS for each in BOUNDS[LATENCY_MS])
    assert not any(counts.latency_ms[:quick])
    out = wait_for_records(broker.bootstrap, plan.output, 100)
    assert [r.value for r in out] == [b"%d" % n for n in range(100)]
    assert [r.headers for r in out] == [
        [("sequence", b"%d" % n), ("key", b"own")] for n in range(100)
    ]
    assert len({r.partition for r in out}) == 1
    assert len(wait_for_records(broker.bootstrap, plan.rejects, 5)) == 5

    again = run(plan, [row(4, plan.output, 0, 50, totals="{}")], BatchContext("q", 0, True))
    assert again == Report(PARTITION, True, Written(found=1), [(4, "{}")])
    assert len(read_all(broker.bootstrap, plan.output)) == 100, "a batch that is there is skipped"


def test_nothing_to_write_begins_nothing(plan):
    told = run(plan, [row(3, "", 0, 0, totals="{}")], BatchContext("q", 0, False))
    assert told == Report(PARTITION, False, Written(), [(3, "{}")])
    assert not writer._writers
    assert run(plan, [], BatchContext("q", 0, False)) is None


def test_headers_are_named_as_the_batch_decided(plan, broker):
    """Some of a repeated batch may be written; the writer is kept for the next one."""
    plan = replace(plan, headers=Headers("new-"))
    for batch, prefix in enumerate(["old-", "new-"]):
        wrote = {PARTITION: batch - 1}
        context = BatchContext("q", batch, wrote=wrote, decisions={"header_prefix": prefix})
        run(plan, [row(3, plan.output, batch, 1, totals="{}")], context)
    names = [[name for name, _ in each.headers] for each in read_all(broker.bootstrap, plan.output)]
    assert names == [["old-sequence", "old-key"], ["new-sequence", "new-key"]]


def test_progress_that_kafka_forgot_stops_the_batch(plan, broker):
    rows = [
        row(3, plan.output, 0, 5, totals="{}"),
        row(4, plan.output, 5, 5, totals="{}", wrote_before=True),
    ]
    why = rf'with the topic {plan.events} if .*begun with delivery = "at-least-once"'
    with pytest.raises(ProgressMissing, match=why):
        run(plan, rows, BatchContext("q", 7, True))
    assert read_all(broker.bootstrap, plan.output) == []
    run(plan, [row(3, plan.output, 0, 5, totals="{}")], BatchContext("q", 7, True))
    assert len(wait_for_records(broker.bootstrap, plan.output, 5)) == 5, (
        "who never wrote is not in doubt"
    )
    with pytest.raises(ProgressMissing, match="Another service of the name .* on another check"):
        run(plan, rows, BatchContext("another", 7, True, young=True))


def test_progress_that_is_deleted_after_the_start_has_looked_stops_the_batch(plan, broker):
    """As with the topic of events: that other partitions have some says nothing then."""
    rows = [row(3, plan.output, 0, 5, totals="{}")]
    seen = BatchContext("q", 7, True, young=True, remembered=[PARTITION])
    with pytest.raises(ProgressMissing):
        run(plan, rows, seen)
    assert read_all(broker.bootstrap, plan.output) == []
    run(plan, rows, replace(seen, remembered=[PARTITION + 1]))
    assert len(wait_for_records(broker.bootstrap, plan.output, 5)) == 5


@pytest.mark.parametrize("older", [(-1, ""), (7, BatchProgress(7, "q", "other").to_text())])
@pytest.mark.parametrize("count", [5, 0])
def test_what_a_deposed_coordinator_tells_ends_nothing(plan, monkeypatch, older, count):
    """It has lost the group, does not know, and tells what was before: whoever has it is asked."""

    def told(producer):
        producer.found = older
        return older

    context = BatchContext("q", 7, True)
    run(plan, [row(4, plan.output, 0, 5, totals='{"read": 5}')], context)
    topic = plan.output if count else ""
    rows = [row(4, topic, 0, count, totals='{"read": 5}', wrote_before=True)]
    writer._writers.clear()
    with monkeypatch.context() as patched:
        patched.setattr(producer.BatchProducer, "progress", told)
        with pytest.raises(KafkaUnavailable, match="no longer in charge"):
            run(plan, rows, context)
    assert run(plan, rows, context).written.found == (1 if count else 0)


def test_what_a_copy_of_the_checkpoint_wrote_meanwhile_stops_the_batch(
    plan, broker, monkeypatch, tmp_path
):
    latest = {PARTITION: 10}
    given = [row(3, plan.output, 0, 5, totals="{}")]
    run(plan, given, BatchContext("q", 11, digest="a.a", latest=latest))  # by one of the two
    monkeypatch.setattr(writer, "_writers", {})
    later = BatchContext("q", 13, digest="b.b", latest=latest)  # the other had two batches of ticks
    with pytest.raises(CheckpointBehind, match="wrote a batch 11 that is not in the checkpoint"):
        run(plan, given, later)
    assert len(read_all(broker.bootstrap, plan.output)) == 5

    offsets = tmp_path / "offsets"
    offsets.mkdir()
    (offsets / "11").write_bytes(b"another batch 11")
    plan = replace(plan, folder=str(tmp_path))
    goes_on = replace(later, latest={PARTITION: 11})
    with pytest.raises(CheckpointBehind):
        run(plan, given, goes_on)
    (offsets / "11").unlink()
    run(plan, [row(3, plan.output, 5, 2, totals="{}")], goes_on)
    assert len(read_all(broker.bootstrap, plan.output)) == 7, "batch 11 was its own"


def test_a_host_that_has_another_folder_writes_nothing(plan, tmp_path):
    context = BatchContext("q", 11, digest=f"{hashed(b'the log')}.a")
    writer.require_seen(plan, context)  # the checkpoint is in no folder
    plan = replace(plan, folder=str(tmp_path))
    offsets = tmp_path / "offsets"
    with pytest.raises(StorageUnavailable, match="do not see batch 11"):
        writer.require_seen(plan, context)
    offsets.mkdir()
    (offsets / "11").write_bytes(b"the log of an older copy")
    with pytest.raises(StorageUnavailable, match="it is not the driver's folder there"):
        writer.require_seen(plan, context)
    (offsets / "11").write_bytes(b"the log")
    writer.require_seen(plan, context)
    (offsets / "11").unlink()
    (offsets / "11").mkdir()  # root may read every file, but no folder
    with pytest.raises(StorageUnavailable, match="cannot be read on .*Is a directory"):
        writer.require_seen(plan, context)


def test_a_young_batch_whose_progress_is_missing_was_not_written(plan, broker):
    """Of a partition that wrote nothing for so long that Kafka forgot what it wrote before."""
    rows = [row(4, plan.output, 0, 5, totals="{}", wrote_before=True)]
    assert run(plan, rows, BatchContext("q", 7, True, young=True)).written.transactions == 1
    assert run(plan, rows, BatchContext("q", 7, True, young=True)).written.found == 1
    assert len(wait_for_records(broker.bootstrap, plan.output, 5)) == 5


@pytest.mark.parametrize("transactional", [True, False])
def test_a_shard_without_its_last_row_stops_the_batch(plan, broker, transactional):
    delivery = "exactly-once" if transactional else "at-least-once"
    some = replace(plan, delivery=delivery)
    first, second = row(3, plan.output, 0, 5), row(3, plan.rejects, 5, 5)
    closed = row(4, plan.output, 5, 5, totals="{}")
    for rows in ([first], [first, second], [closed, first], [first, closed]):
        with pytest.raises(SequencerError, match="Shard 3 gave rows"):
            run(some, rows, BatchContext("q", 7, False))
    if transactional:
        assert read_all(broker.bootstrap, plan.output) == []
    run(some, [closed, first, row(3, "", 0, 0, totals="{}")], BatchContext("q", 7, False))
    assert len(read_all(broker.bootstrap, plan.output)) >= 10


def test_what_driver_and_tasks_tell_each_other_is_one_text():
    report = Report(
        3, True, Written(1, 0, [1, 2]), [(7, '{"in": 1}'), (12, '{"x": "a b"}')],
        answers=[{"event": "command-done", "why": "two\nlines"}],
    )  # fmt: skip
    assert Report.from_text(report.to_text()) == report
    context = BatchContext("a query", 12, True, {0: 11, 7: 3})
    assert BatchContext.from_json(context.to_json()) == context


def test_a_record_that_kafka_refuses_for_good_says_what_to_do(plan, broker):
    ahead = row(3, plan.output, 0, 5, totals="{}")
    table = from_ipc(ahead["rows"][0].as_py())
    far_ms = pa.array([round(time.time() * 1000) + 86_400_000] * 5)
    far = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", far_ms)
    blob = pa.array([to_ipc(far)], pa.binary())
    ahead = ahead.set_column(ahead.schema.get_field_index("rows"), "rows", blob)
    with pytest.raises(KafkaUnavailable, match=r"5 records.*out: INVALID_TIMESTAMP"):
        run(plan, [ahead], BatchContext("q", 0, False))
    assert read_all(broker.bootstrap, plan.output) == []


def test_an_event_that_is_larger_than_a_segment_says_what_to_do(plan, broker):
    plan = replace(plan, events=plan.events + ".small")
    make_topic(broker.bootstrap, plan.events, segment_bytes=2**20, max_message_bytes=2**24)
    large = row(3, plan.events, 0, 1, totals="{}")
    table = from_ipc(large["rows"][0].as_py())
    value = pa.array([random.Random(0).randbytes(2**21)], pa.binary())
    table = table.set_column(table.schema.get_field_index("value"), "value", value)
    blob = pa.array([to_ipc(table)], pa.binary())
    large = large.set_column(large.schema.get_field_index("rows"), "rows", blob)
    with pytest.raises(KafkaUnavailable, match="RECORD_LIST_TOO_LARGE") as refused:
        run(plan, [large], BatchContext("q", 0, False))
    assert "segment.bytes" in refused.value.remedy


def test_progress_that_an_operator_reset_stops_the_batch(plan, broker):
    """`kafka-consumer-groups --reset-offsets` leaves an offset without our metadata."""
    rows = [row(4, plan.output, 0, 5, totals='{"read": 5}', wrote_before=True)]
    context = BatchContext("q", 7, True, young=True)
    run(plan, rows, context)
    writer._writers.clear()
    group = plan.progress_group(PARTITION)
    reset_offsets(broker.bootstrap, group, plan.events, 7)
    with pytest.raises(ProgressMissing, match="somebody reset it"):
        run(plan, rows, context)
    assert len(read_all(broker.bootstrap, plan.output)) == 5
