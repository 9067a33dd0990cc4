"""Record batches that operators encode are those that the sink would have made of the rows."""

import os
import random
from pathlib import Path

import pyarrow as pa
import pytest

from streaming.arrow.ipc import from_ipc, to_ipc
from streaming.arrow.output import events, output_rows
from streaming.arrow.schemas import HEADERS, is_compressed, is_encoded
from streaming.arrow.totals import Totals
from streaming.wire import record_batch
from streaming.wire.encoded import (
    batches_of,
    encoded,
    headers_in,
    partitions_in,
    stamps_of,
)
from streaming.wire.record_batch import batches

NOW_MS = 5_000


def deliveries(rng, count):
    """Like a channel's, in no order of partitions."""
    return pa.table(
        {
            "key": pa.array([rng.choice([None, b"", b"k"]) for _ in range(count)], pa.binary()),
            "value": pa.array([rng.randbytes(rng.randrange(900)) for _ in range(count)]),
            "headers": pa.array([[{"key": "h", "value": b"v"}]] * count, HEADERS),
            "timestamp": pa.array([1_000 + at for at in range(count)]),
            "partition": pa.array([rng.randrange(3) for _ in range(count)], pa.int32()),
            "sequence": pa.array(range(count)),
        }
    )


def header(name):
    return f"my-{name}"


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd", "gzip"])
@pytest.mark.parametrize("count", [1, 700])
def test_as_of_rows(compression, count, monkeypatch):
    monkeypatch.setattr(record_batch, "BODY_BYTES_MAX", 20_000)
    rows = deliveries(random.Random(1), count)
    table = from_ipc(to_ipc(encoded(rows, 3, header, compression, NOW_MS)))
    assert is_encoded(table)
    assert not is_encoded(rows)
    assert is_compressed(table) == (compression != "none")
    expected = [
        each.compressed(compression)
        for each in batches(rows, partitions_in(rows, int), headers_in(rows, header), NOW_MS)
    ]
    assert len(expected) > (count > 1) * 10
    for got, made in zip(batches_of(table), expected, strict=True):
        assert got.partition == made.partition
        sent = [each.finished((7, 1), 5, transactional=True) for each in (got, made)]
        assert sent[0] == sent[1]
    assert stamps_of(table).tolist() == rows["timestamp"].to_pylist()


def test_without_times_and_partitions():
    rows = events([(b"a", {"x": 1}), (b"b", {"x": 2}), (b"", {})])
    table = encoded(rows, 8, header, "lz4", NOW_MS)
    (one, *_) = batches_of(table)
    assert one.first_ms == one.latest_ms == NOW_MS
    assert [each.partition for each in batches_of(table)] == sorted(
        set(partitions_in(rows, lambda: 8).tolist())
    )
    assert not stamps_of(table).tolist()


def test_what_is_compressed_travels_as_it_is_and_what_is_not_is_made_smaller():
    rows = deliveries(random.Random(1), 5_000)
    value = pa.array([b"the same again " * 70] * len(rows))
    rows = rows.set_column(rows.schema.get_field_index("value"), "value", value)
    sizes = {}
    for compression in ("none", "lz4"):
        table = encoded(rows, 3, header, compression, NOW_MS)
        ((blob,),) = (each["rows"] for each in output_rows(1, [("topic", table)], Totals()))
        assert from_ipc(blob).equals(table)
        sizes[compression] = len(blob) / table.nbytes
    assert sizes["none"] < 0.2
    assert sizes["lz4"] > 0.9


def test_memory_is_free_again_when_what_was_encoded_is_gone():
    rows = deliveries(random.Random(1), 20_000)
    size = encoded(rows, 3, header, "lz4", NOW_MS).nbytes
    before = resident_bytes()
    for _ in range(20):
        encoded(rows, 3, header, "lz4", NOW_MS)
    assert resident_bytes() - before < 5 * size


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
