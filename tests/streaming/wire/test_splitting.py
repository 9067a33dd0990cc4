"""Record batches taken apart: the same records, byte for byte, in their order."""

import numpy as np
import pyarrow as pa
import pytest

from streaming.arrow.schemas import HEADERS
from streaming.wire.blocks import blocked
from streaming.wire.record_batch import batches
from streaming.wire.splitting import halves, records_in, taken, unfinished
from tests.streaming.wire.reading import read

HEADER = [{"key": "own", "value": b"1"}, {"key": "own", "value": None}]


def made(count, compression, *, with_blocks=False):
    numbers = range(count)
    table = pa.table(
        {
            "key": pa.array([None if n == 1 else b"k%d" % n for n in numbers], pa.binary()),
            "value": pa.array(
                [None if n == 2 else b"%d" % n * (3_000 * n) for n in numbers], pa.binary()
            ),
            "headers": pa.array([HEADER * (n % 3) for n in numbers], HEADERS),
            "timestamp": pa.array([1_000 - 7 * n for n in numbers]),
        }
    )
    table = blocked(table) if with_blocks else table
    added = [("sequence", pa.array(numbers))]
    (batch,) = batches(table, np.full(count, 5, np.int32), added, 0)
    return batch.compressed(compression)


def finished(batch):
    return batch.finished((7, 1), 12, transactional=True)


def contents(batch):
    """What kafka-python reads; zstd it reads only with a library that is not there."""
    if batch.compression != "zstd":
        return read(finished(batch))[0]
    return records_in(batch).drop_columns(["offset"]).to_pylist()


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "zstd"])
def test_halves_have_the_same_records(compression):
    whole = made(9, compression)
    parts = halves(whole)
    assert [part.count for part in parts] == [4, 5]
    assert {(part.partition, part.compression) for part in parts} == {(5, compression)}
    assert [record for part in parts for record in contents(part)] == contents(whole)


def test_a_batch_of_large_values_can_be_split():
    whole = made(9, "lz4", with_blocks=True)
    parts = halves(whole)
    assert [record for part in parts for record in contents(part)] == contents(whole)


def test_some_of_a_batch():
    whole = made(9, "lz4")
    records = records_in(whole)
    (part,) = taken(whole, records, [1, 2, 7])
    assert contents(part) == [contents(whole)[row] for row in (1, 2, 7)]
    (alone,) = taken(whole, records, [2])
    assert alone.count == 1
    assert records_in(alone)["key"].to_pylist() == [b"k2"]


def test_a_finished_batch_is_known_again():
    whole = made(9, "zstd")
    again, sequence = unfinished(finished(whole), 5)
    assert sequence == 12
    assert finished(again) == finished(whole)
