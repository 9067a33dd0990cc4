"""State keys are distinct, and spread over the partitions as asked.

That Spark hashes them so: `tests/spark/test_channel_once.py`.
"""

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from streaming.disciplines.state_keys import _spark_hash_int, shard_keys, shard_of_name, shards_of


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


def test_a_names_shard_does_not_depend_on_other_names():
    names = pa.array([b"", b"a", b"\xff\x00", b"a longer name", b"a", None], pa.binary())
    found = shards_of(names, 5)
    assert found[1] == found[4]
    assert found[0] == found[5]
    for at, name in enumerate(names.to_pylist()):
        assert shards_of(names.slice(at, 1), 5)[0] == found[at]
        assert name is None or shard_of_name(name, 5) == found[at]
    assert found.min() >= 0
    many = shards_of(pa.array([b"%d" % n for n in range(3000)], pa.binary()), 3)
    assert np.bincount(many).min() > 900
    assert len(shards_of(names.slice(0, 0), 5)) == 0


def test_one_name_has_the_shard_that_it_has_among_many():
    rng = random.Random(1)
    names = [rng.randbytes(length) for length in range(40) for _ in range(5)]
    for shards in (1, 2, 7, 1024):
        many = shards_of(pa.array(names, pa.binary()), shards).tolist()
        assert [shard_of_name(name, shards) for name in names] == many
