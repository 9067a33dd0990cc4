"""Records that nobody would send in good faith: each ends in one place, and nothing is kept of them.

`SEQUENCER_HOSTILE=10000000 make hostile` takes half an hour; half of the records have channels that nobody
has seen before, and a tenth are all of one channel, which has every kind of trouble. Besides, a million
channels a minute come under new names, for an hour of the batches' time.
"""

import os
import random
import resource

import numpy as np
import pyarrow as pa
import pytest

from sequencer.channels import Rules, Skip
from sequencer.labels import CyclicLabels, LinearLabels
from streaming.arrow.schemas import HEADERS
from streaming.disciplines.channels.codec import decode_shard, encode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.state_row import StateRow
from tests.streaming.disciplines.channels.plans import pack, pack_table, plan

RECORDS = int(os.environ.get("SEQUENCER_HOSTILE", "200000"))
BATCH, BATCH_MS = 5_000, 50
MEMORY_MIB_MAX = 300
"""More than after the first tenth of the records."""
NUMBERS = [
    *(b"", b"0", b"00", b"1", b"-1", b"+1", b" 1", b"1 ", b"1.0", b"1e3", b"0x1", b"\xff", b"NaN"),
    *(b"9" * 18, b"9" * 19, b"9" * 20, b"%d" % (2**63 - 1), b"%d" % 2**63, b"0" * 18 + b"7"),
    *("١".encode(), b"1\0", b"\n1", b"7" * 100_000, None),
]
"""Of labels and epochs: at both ends, and what only looks like one."""
KEYS = [None, b"", b"\0", b"\xff\xfe", b"x" * 100_000, "é".encode(), b"a", b"b", b"c" * 300]
VALUES = [None, b"", b"\0" * 10, b"v"]
NAMES = ["label", "epoch", "fin", "Label", "", "sequence", "reject-reason", "h" * 1_000]


def hostile(rng, offset):
    """One record."""
    kind = rng.random()
    key = rng.choice(KEYS) if kind < 0.4 else b"new-%d" % offset if kind < 0.9 else b"all"
    near = b"%d" % rng.randrange(max(offset // 500 - 20, 0), offset // 500 + 20)
    near = b"%d" % rng.randrange(2) if 0.4 <= kind < 0.9 else near
    label = near if rng.random() < 0.6 else rng.choice(NUMBERS)
    headers = [{"key": "label", "value": label}] if rng.random() < 0.95 else []
    while rng.random() < 0.3:
        name = rng.choice(NAMES)
        value = rng.choice(NUMBERS) if rng.random() < 0.3 else b"%d" % (offset // 20_000)
        headers.insert(rng.randrange(len(headers) + 1), {"key": name, "value": value})
    return {
        "topic": 0,
        "partition": offset % 3,
        "offset": offset // 3,
        "timestamp": rng.choice([0, -1, 1, 2**62, -(2**62), offset]),
        "key": key,
        "value": rng.choice(VALUES),
        "headers": headers or None,
    }


def memory_mib():
    """The most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def through(labels, count, rng):
    """Take so many records; the totals, and the bytes of the state after each batch."""
    rules = Rules(
        *(labels, Skip(4 * BATCH_MS)), held_max=50, window=1_000, retire_after_ms=10 * BATCH_MS
    )
    p = plan(rules)
    row, sizes, now_ms, first_mib = StateRow(), [], 1_000, None
    for first in range(0, count, BATCH):
        records = [hostile(rng, offset) for offset in range(first, min(first + BATCH, count))]
        now_ms += BATCH_MS
        after, writes = step_shard(decode_shard(row, record_schema(p)), pack(records, p), now_ms, p)
        assert all(len(table) for _, table in writes)
        row = encode_shard(after)
        sizes.append(sum(len(part) for part in row if isinstance(part, (str, bytes))))
        if first >= count // 10 and first_mib is None:
            first_mib = memory_mib()
    assert memory_mib() < first_mib + MEMORY_MIB_MAX
    return after.totals, sizes


@pytest.mark.parametrize("labels", [LinearLabels(), CyclicLabels(65_536)], ids=["linear", "cyclic"])
@pytest.mark.parametrize("count", [10_000, pytest.param(RECORDS, marks=pytest.mark.slow)])
@pytest.mark.timeout(86_400)
def test_every_hostile_record_ends_in_one_place(labels, count):
    totals, sizes = through(labels, count, random.Random(count))
    assert totals.seen == count
    assert totals.delivered + sum(totals.rejected.values()) + totals.held == count
    assert totals.delivered > count // 10
    assert len(totals.rejected) > 5, totals.rejected
    third = len(sizes) // 3
    if third > 10:
        assert max(sizes[-third:]) < 2 * max(sizes[third : 2 * third]), "what is kept grows"


NEW_SECOND, HOUR_SECONDS, RETIRE_SECONDS = 1_000_000 // 60, 3_600, 10


def named_anew(first, count, p):
    """Each the only record of a channel that nobody has seen before."""
    number = np.arange(first, first + count)
    labels = pa.StructArray.from_arrays(
        [pa.array(["label"] * count), pa.array([b"0"] * count)], fields=[*HEADERS.value_type]
    )
    columns = {
        "topic": pa.array(np.zeros(count, np.int32)),
        "partition": pa.array(np.zeros(count, np.int32)),
        "offset": pa.array(number),
        "timestamp": pa.array(number),
        "key": pa.array([b"new-%d" % each for each in number.tolist()]),
        "value": pa.array([b"v"] * count),
        "headers": pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32)), labels),
    }
    return pack_table(pa.table(columns).cast(record_schema(p)), p)


@pytest.mark.parametrize(
    ("a_second", "seconds"),
    [(50, 60), pytest.param(NEW_SECOND, HOUR_SECONDS, marks=pytest.mark.slow)],
)
@pytest.mark.timeout(86_400)
def test_a_million_new_channels_a_minute_leave_nothing(a_second, seconds):
    p = plan(Rules(LinearLabels(), retire_after_ms=RETIRE_SECONDS * 1_000))
    row, sizes, first_mib = StateRow(), [], None
    for second in range(seconds):
        packs, now_ms = named_anew(second * a_second, a_second, p), (second + 1) * 1_000
        after, _ = step_shard(decode_shard(row, record_schema(p)), packs, now_ms, p)
        row = encode_shard(after)
        sizes.append(sum(len(part) for part in row if isinstance(part, (str, bytes))))
        if second == seconds // 10:
            first_mib = memory_mib()
    assert after.totals.delivered == a_second * seconds
    assert after.totals.channels <= a_second * (RETIRE_SECONDS + 1)
    assert max(sizes[-seconds // 3 :]) < 1.5 * max(sizes[seconds // 3 : -seconds // 3])
    assert memory_mib() < first_mib + MEMORY_MIB_MAX
