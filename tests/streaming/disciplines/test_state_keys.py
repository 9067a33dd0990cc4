"""State keys are distinct, and spread over the partitions as asked.

That Spark hashes them so: `tests/spark/test_channel_once.py`.
"""

from collections import Counter

import pytest

from streaming.disciplines.state_keys import _spark_hash_int, shard_keys


@pytest.mark.parametrize(("shards", "partitions"), [(1, 1), (16, 2), (16, 5), (7, 7), (64, 3)])
def test_each_partition_gets_its_share(shards, partitions):
    keys = shard_keys(shards, partitions)
    assert len(set(keys)) == shards
    places = [_spark_hash_int(key) % partitions for key in keys]
    assert places == [shard % partitions for shard in range(shards)]
    shares = Counter(places)
    assert max(shares.values()) - min(shares.values()) <= 1


def test_hashes_that_spark_gave():
    """`select hash(0), hash(1), hash(-1)` in Spark's own shell."""
    assert list(map(_spark_hash_int, (0, 1, -1))) == [933211791, -559580957, -1604776387]
