"""A repeated batch has to have as many records as when it was written."""

import json

import pyarrow as pa
import pytest

from streaming.arrow.ipc import to_ipc
from streaming.disciplines.plan import BatchContext
from streaming.errors import InputChanged, ProgressMissing
from streaming.sink import writer
from streaming.sink.sink import Sink
from tests.streaming.sink.small_kafka import PLAN, cut_once, rows_of, small_kafka, table_of, write

OUTPUT = pa.schema(
    [
        *(("shard", pa.int32()), ("topic", pa.string()), ("rows", pa.binary())),
        *(("totals", pa.string()), ("wrote_before", pa.bool_())),
    ]
)


@pytest.fixture
def topics(monkeypatch):
    return small_kafka(monkeypatch)


def had(records, *, attempt=0, **decisions):
    """One attempt at a batch for which two shards got some records; it may have nothing to write."""
    writer._writers.clear()
    rows = [
        {"shard": shard, "topic": "out", "rows": to_ipc(table_of(*range(5))), "totals": told}
        for shard, told in ((1, json.dumps({"read": 3})), (2, json.dumps({"read": records - 3})))
    ]
    made = [{**row, "wrote_before": True} for row in rows] if records else []
    given = pa.RecordBatch.from_pylist(made, OUTPUT) if made else None
    context = BatchContext("q", 0, in_doubt=attempt > 0, decisions=decisions)
    return Sink(PLAN).run(context, 0, [given] if made else [])


@pytest.mark.parametrize("left", [9, 0])
def test_a_batch_that_is_written_has_to_have_as_many_records_again(topics, left):
    """Compaction removes records between a batch and its repetition; others would go by the rest."""
    had(10)
    before = topics.all()
    assert had(10, attempt=1).written.found == 1
    with pytest.raises(InputChanged, match=f"had 10 records .* has {left} now.*--accept-repeats"):
        had(left, attempt=2)
    assert topics.all() == before


def test_refusals_are_of_a_batch_with_as_many_records(topics):
    """What they name may be another record among others."""
    refused = {"refused": [[]], "records_read": {"0": 10}}
    with pytest.raises(InputChanged, match="had 10 records .* has 9 now"):
        had(9, **refused)
    assert not topics.all()
    assert had(10, **refused).wrote


def test_progress_of_a_version_that_kept_no_number_of_records_is_not_compared(topics):
    had(10)
    batch, told = topics.progress
    topics.progress = batch, told.replace("all-a", "all")
    assert had(9, attempt=1).written.found == 1


def test_a_batch_that_was_begun_and_has_nothing_to_write_any_more_is_told(topics):
    cut_once(topics, PLAN, rows_of({3: [("out", table_of(*range(40)))]}, [3]))
    with pytest.raises(ProgressMissing, match=r"written in part.*gives something else now"):
        had(0, attempt=1)


def with_read(rows, **read):
    """Rows of shards that got as many records of the batch: ``s3=5`` for shard 3."""
    return [{**row, "read": read[f"s{row['shard']}"]} for row in rows]


@pytest.mark.parametrize(
    ("before", "now", "shards"),
    [
        ({"s3": 9, "s4": 2}, {"s3": 8, "s4": 2}, "9 records .* has 8 now"),
        ({"s4": 2, "s3": 9}, {"s4": 1, "s3": 9}, "2 records .* has 1 now"),
    ],
    ids=["of which some was written", "of which all was written"],
)
def test_a_batch_that_was_begun_has_to_have_as_many_records_again(topics, before, now, shards):
    """Also where what it gives now begins with what ends like that which was written."""
    made = {3: [("out", table_of(*range(40)))], 4: [("out", table_of(*range(5)))]}
    rows = rows_of(made, [int(name[1:]) for name in before])
    cut_once(topics, PLAN, with_read(rows, **before))
    written = topics.all()
    with pytest.raises(InputChanged, match=f"had {shards}.*--accept-repeats"):
        write(PLAN, with_read(rows, **now), in_doubt=True)
    assert topics.all()[: len(written)] == written
    write(PLAN, with_read(rows, **before), in_doubt=True)
    assert len(topics.all()) == 45


def test_a_part_of_a_version_that_kept_no_number_of_records_is_gone_on_with(topics):
    made = {3: [("out", table_of(*range(40)))], 4: [("out", table_of(*range(5)))]}
    rows = rows_of(made, [4, 3])
    cut_once(topics, PLAN, with_read(rows, s4=2, s3=9))
    batch, told = topics.progress
    *others, part = told.split(" ")
    whole, total, known, cut = part.rstrip("/").split(".")
    before = [known.partition("-")[0], "-".join(cut.split("-")[:3])]
    topics.progress = batch, " ".join([*others, f"{'.'.join([whole, total, *before])}/"])
    write(PLAN, with_read(rows, s4=1, s3=7), in_doubt=True)
    assert len(topics.all()) == 45
