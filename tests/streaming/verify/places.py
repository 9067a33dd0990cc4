"""Where a key's records are, in topics of a few partitions."""

import pyarrow as pa

from streaming.arrow.partitioner import partitions_of

PARTITIONS = 3


def partition_of(key):
    return int(partitions_of(pa.array([key or b""], pa.binary()), PARTITIONS)[0])
