"""Tables and bodies on their way through Spark: what comes out is what went in, or an error."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.arrow.ipc import (
    COMPRESSED_BYTES_MIN,
    from_body,
    from_ipc,
    from_state,
    to_body,
    to_ipc,
    to_state,
)
from streaming.arrow.schemas import RECORD
from streaming.errors import SequencerError
from tests.seeds import examples

VALUES = st.one_of(st.none(), st.binary(max_size=50), st.just(b"x" * 20_000))


def records(values):
    """Rows of RECORD with these values."""
    return pa.Table.from_pylist(
        [
            {
                "topic": 0,
                "partition": at % 3,
                "offset": at,
                "timestamp": 1,
                "key": None if at % 2 else b"k",
                "value": value,
                "headers": [{"key": "h", "value": value}, {"key": "", "value": None}],
            }
            for at, value in enumerate(values)
        ],
        schema=RECORD,
    )


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=30), st.data())
def test_rows_small_and_large_come_back_from_any_slice(values, data):
    first = data.draw(st.integers(0, len(values) - 1))
    table = records(values).slice(first)
    (batch,) = table.combine_chunks().to_batches()
    assert from_ipc(to_ipc(table)).to_pylist() == table.to_pylist()
    assert from_body(to_body(batch), RECORD).to_pylist() == table.to_pylist()
    assert from_state(to_state(batch), RECORD).to_pylist() == table.to_pylist()


def test_large_rows_are_compressed_and_a_slice_carries_only_itself():
    table = records([b"x" * 4000] * 1000)
    (batch,) = table.combine_chunks().to_batches()
    assert batch.nbytes > 10 * COMPRESSED_BYTES_MIN
    few = records([b"x" * 100] * 10_000)
    assert len(to_ipc(few)) > few.nbytes
    assert len(to_body(batch)) < batch.nbytes / 10
    assert len(to_ipc(table)) < batch.nbytes / 10
    assert len(to_body(batch.slice(10, 5))) < 60_000
    assert from_body(to_body(batch.slice(10, 5)), RECORD).to_pylist() == table[10:15].to_pylist()


@pytest.mark.parametrize("values", [[b"few"], [b"x" * 4000] * 500], ids=["plain", "compressed"])
def test_a_changed_bit_anywhere_is_found(values):
    (batch,) = records(values).combine_chunks().to_batches()
    body = to_body(batch)
    for at in range(0, len(body), len(body) // 40):
        damaged = bytearray(body)
        damaged[at] ^= 16
        with pytest.raises(SequencerError, match="damaged") as told:
            from_body(bytes(damaged), RECORD)
        assert "will be repeated" in str(told.value)
