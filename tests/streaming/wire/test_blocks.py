"""Values compressed one by one: they come back, whatever they were, and are the same anywhere."""

import random
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.arrow.ipc import from_body, to_body
from streaming.arrow.schemas import HEADERS, has_blocks
from streaming.wire import blocks, record_batch
from streaming.wire.blocks import LARGE_BYTES_MIN, alike, blocked, mostly_large, plain_values
from streaming.wire.encoded import batches_of, encoded
from tests.streaming.wire.reading import read

NOISE = random.Random(1).randbytes(9_000_000)
value = st.one_of(
    st.none(),
    st.binary(max_size=60),
    st.sampled_from(
        [b"", bytes(LARGE_BYTES_MIN - 1), bytes(LARGE_BYTES_MIN), NOISE[:LARGE_BYTES_MIN]]
    ),
    st.sampled_from([NOISE[:65_536], bytes(65_537), NOISE[:70_000] + bytes(70_000)]),
)


def table(values, *, dictionary=False):
    column = pa.array(values, pa.binary())
    if dictionary:
        column = column.dictionary_encode()
    rows = pa.array(range(len(values)), pa.int64())
    return pa.table({"offset": rows, "value": column, "last": rows})


@given(values=st.lists(value, max_size=12), dictionary=st.booleans(), cut=st.integers(0, 12))
def test_values_come_back_and_are_the_same_among_others(values, dictionary, cut):
    rows = table(values, dictionary=dictionary)
    made = blocked(rows)
    assert made.column_names == ["offset", "block", "size", "last"]
    assert plain_values(made).to_pylist() == rows.to_pylist()
    parts = [blocked(each) for each in (rows.slice(0, cut), rows.slice(cut))]
    assert pa.concat_tables(parts).to_pylist() == made.to_pylist()
    assert plain_values(made.slice(cut)).to_pylist() == rows.slice(cut).to_pylist()
    (batch,) = made.combine_chunks().to_batches() or [None]
    if batch is not None:
        assert from_body(to_body(batch), table([]).schema).to_pylist() == made.to_pylist()


@pytest.mark.parametrize("size", [4 * 2**20, 4 * 2**20 + 1, 9_000_000])
def test_values_of_several_blocks(size):
    rows = table([NOISE[:size], bytes(size), b"x"])
    for made in (blocked(rows), *alike([rows, blocked(rows)])):
        assert plain_values(made).to_pylist() == rows.to_pylist()


def test_tables_become_alike_without_compressing():
    small, large = table([b"a", None, b""]), blocked(table([bytes(LARGE_BYTES_MIN)]))
    assert alike([small, small]) == [small, small]
    with mock.patch.object(blocks, "lz4_blocks", side_effect=AssertionError("compressed")):
        both = alike([small, large])
    assert both[1] is large
    assert plain_values(both[0]).to_pylist() == small.to_pylist()
    assert both[0].to_pylist() == blocked(small).to_pylist()


def records(values):
    count = len(values)
    return pa.table(
        {
            "key": pa.array([b"k"] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.nulls(count, HEADERS),
            "timestamp": pa.array(range(count), pa.int64()),
            "partition": pa.array([at % 2 for at in range(count)], pa.int32()),
            "sequence": pa.array(range(count)),
        }
    )


def found(rows, compression):
    """What kafka-python finds in the encoded rows, by partition."""
    out = {}
    for each in batches_of(encoded(rows, 2, "x-{}".format, compression, 5)):
        there, _ = read(each.finished((1, 0), 0, transactional=False))
        out.setdefault(each.partition, []).extend(there)
    return out


@pytest.mark.parametrize("compression", ["none", "lz4", "gzip"])
@pytest.mark.parametrize("large", [0, 1, 30])
def test_readers_find_the_same_with_blocks(compression, large):
    rng = random.Random(2)
    values = [rng.randbytes(300) * 20 if at < large else b"%d" % at * 90 for at in range(60)]
    rows = records([*values, None, b""])
    assert found(blocked(rows), compression) == found(rows, compression)


def test_large_values_are_compressed_once(monkeypatch):
    """And those of a table that has more of the others are compressed with them."""
    rows = blocked(records([b"some text " * 500] * 20))
    assert mostly_large(rows)
    expected = found(rows, "lz4")
    with monkeypatch.context() as patch:
        patch.setattr(record_batch, "compressed", None)
        assert found(rows, "lz4") == expected
    mixed = blocked(records([b"some text " * 500, *[b"some text " * 40] * 20]))
    assert has_blocks(mixed.schema)
    assert not mostly_large(mixed)
    assert encoded(mixed, 2, str, "lz4", 5).nbytes < mixed.nbytes / 4


def test_headers_that_are_no_block():
    pair = [{"key": "h", "value": NOISE[:5_000_000]}]
    rows = records([bytes(LARGE_BYTES_MIN)] * 2)
    rows = rows.set_column(2, "headers", pa.array([pair, None], HEADERS))
    assert found(blocked(rows), "lz4") == found(rows, "lz4")
