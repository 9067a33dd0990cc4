"""A shard's state as Spark keeps it."""

import pytest

from streaming.disciplines.state_row import STATE, StateRow


@pytest.mark.parametrize(
    "row",
    [StateRow(), StateRow(1_767_225_600_000, '{"seen": 3}', "links\n\nlines\n"), StateRow(7)],
)
def test_a_row_is_read_back_from_its_only_column(row):
    assert StateRow.from_text(row.to_text()) == row
    assert "," not in STATE
