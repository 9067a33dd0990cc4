"""How large the tables are whose rows become packs."""

import pytest

from streaming.arrow.pack import PACK_BYTES, TABLE_BYTES_MAX, TABLE_BYTES_MIN, table_bytes


@pytest.mark.parametrize("shards", [4, 8, 16])
def test_a_pack_has_one_size_whatever_the_number_of_shards(shards):
    assert table_bytes(shards) / shards == PACK_BYTES


def test_packs_for_all_shards_have_room_in_an_array():
    record_batch = 2**20  # the largest by default; the last one may go beyond the size
    assert 1024 * (table_bytes(1024, for_all=True) + record_batch) < 2**31


def test_a_table_is_neither_small_for_few_shards_nor_large_for_many():
    assert table_bytes(1) == TABLE_BYTES_MIN
    assert table_bytes(1024) == TABLE_BYTES_MAX
