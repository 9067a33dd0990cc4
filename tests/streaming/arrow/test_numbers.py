"""Whole numbers in few bytes: whatever they are, they come back."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from streaming.arrow.numbers import COLUMN, ROWS, from_bytes, to_bytes

WHOLE = st.integers(-(2**63), 2**63 - 1)
SMALL = st.integers(-3, 300)


@given(data=st.data(), rows=st.integers(0, 30), rest=st.binary(max_size=9))
def test_what_comes_back(data, rows, rest):
    of = [SMALL, WHOLE, st.just(-1), st.sampled_from([-(2**63), 2**63 - 1])]
    kinds = data.draw(st.lists(st.sampled_from(of), min_size=1, max_size=5))
    columns = [
        np.array(data.draw(st.lists(kind, min_size=rows, max_size=rows)), np.int64)
        for kind in kinds
    ]
    written = to_bytes(columns)
    found, behind = from_bytes(pa.py_buffer(written + rest), len(columns))
    assert [column.tolist() for column in found] == [column.tolist() for column in columns]
    assert [column.dtype for column in found] == [np.int64] * len(columns)
    assert behind.to_pybytes() == rest
    again = to_bytes([column.astype(column.dtype) for column in found])
    assert again == written


@given(least=WHOLE, above=st.lists(st.integers(0, 2**64 - 1), max_size=20), width=st.integers(0, 8))
def test_numbers_as_they_were_before(least, above, width):
    """All lowest bytes, then the next ones, as many of them as were needed."""
    above = [each % 256**width for each in above]
    planes = [each.to_bytes(8, "little")[plane] for plane in range(width) for each in above]
    body = ROWS.pack(len(above)) + COLUMN.pack(least, width) + bytes(planes)
    (column,), _ = from_bytes(pa.py_buffer(body), 1)
    assert column.tolist() == [(least + each + 2**63) % 2**64 - 2**63 for each in above]


def test_what_is_alike_takes_no_bytes():
    alike, few = np.full(1000, 2**40), np.arange(1000) % 200 + 2**40
    head = len(to_bytes([alike]))
    assert head < 20
    assert len(to_bytes([few])) == head + 1000
    assert len(to_bytes([few > 0])) == head
    assert len(to_bytes([np.arange(300) % 2 == 0])) == head + 300
