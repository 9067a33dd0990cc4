"""Rows in order, the same as by the plain way, however wide the numbers are."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sequencer.sorting import order_by, ranks

KINDS = (
    st.just(7),
    st.integers(0, 3),
    st.integers(-2, 300),
    st.integers(2**40, 2**40 + 70_000),
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([-(2**63), 2**63 - 1]),
)


@given(data=st.data(), rows=st.integers(0, 60))
def test_as_by_the_plain_way(data, rows):
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    columns = [
        np.array(data.draw(st.lists(kind, min_size=rows, max_size=rows)), np.int64)
        for kind in kinds
    ]
    before = [column.copy() for column in columns]
    plain = sorted(range(rows), key=lambda row: [int(column[row]) for column in columns])
    found = order_by(*columns)
    assert found.tolist() == plain
    assert found.dtype == np.int64
    assert all(map(np.array_equal, columns, before)), "they stay as they are"


@given(
    kind=st.sampled_from([np.uint8, np.int16, np.uint16, np.int32, np.uint32]),
    values=st.lists(st.integers(0, 127)),
)
def test_narrow_numbers(kind, values):
    top = np.iinfo(kind).max
    column = np.array([top - value for value in values], kind)
    other = np.array([value % 3 for value in values], kind)
    assert order_by(column).tolist() == np.argsort(column, kind="stable").tolist()
    assert order_by(other, column).tolist() == np.lexsort([column, other]).tolist()


def test_many_rows():
    rng = np.random.default_rng(1)
    for most in (3, 60_000, 70_000, 2**50):
        column, other = rng.integers(0, most, (2, 80_000))
        assert (order_by(column) == np.argsort(column, kind="stable")).all()
        assert (order_by(column, other) == np.lexsort([other, column])).all()


@pytest.mark.parametrize("values", [[], [0], [3, 3, 1, 3, 1], [70_000, 1, 65_536, 70_000, 65_536]])
def test_ranks(values):
    seen = Counter()
    expected = []
    for value in values:
        expected.append(seen[value])
        seen[value] += 1
    rank, distinct, counts = ranks(np.array(values, np.int64))
    assert rank.tolist() == expected
    assert [*zip(distinct.tolist(), counts.tolist(), strict=True)] == sorted(seen.items())
