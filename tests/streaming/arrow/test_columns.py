"""What is told of columns that may be dictionaries."""

import pyarrow as pa

from streaming.arrow.columns import null_rows


def test_a_row_is_null_by_its_index_or_by_its_dictionary_s_value():
    plain = pa.array([None, b"", b"x"], pa.binary())
    rows = pa.array([0, 1, None, 2], pa.int32())
    assert null_rows(plain).tolist() == [True, False, False]
    coded = pa.DictionaryArray.from_arrays(rows, plain)
    assert null_rows(coded).tolist() == [True, False, True, False]
    assert null_rows(coded.slice(2)).tolist() == [True, False]
