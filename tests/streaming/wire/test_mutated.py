"""Mutated batches of all formats and codecs: records, or an error with place and reason."""

import os
import random
import resource
import signal
import zlib
from pathlib import Path

import pytest

from streaming.wire.fetched import Unreadable
from tests.streaming.wire.batches import PLAIN, batch, marker, old_messages, read, with_checksum

COUNT = int(os.environ.get("SEQUENCER_MUTATED", "10000000"))
"""Of the long form."""
CASE_SECONDS_MAX = 20
GROWTH_KIB_MAX = 1_500_000
"""Of the process: what one batch may be decompressed to, and what of that is copied."""
KEPT_KIB_MAX = 100_000
"""In the long form: what stays in memory after many batches."""
BYTES = [0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF]


def originals():
    records = [
        {
            "key": b"key",
            "value": b"value" * 9,
            "headers": [("h", b"1"), ("", None)],
            "timestamp": 5,
        },
        {"key": None, "value": None, "headers": [], "timestamp": 0},
        {"key": b"", "value": b"", "headers": [("h", b"")] * 20, "timestamp": 2**40},
    ]
    new = [batch(records * 3, 0, name) for name in PLAIN]
    aborted = batch(records, 0, transactional=True, producer=1) + marker(3, 1, abort=True)
    codecs = [None, "gzip", "snappy", "xerial", "lz4"]
    old = [old_messages(magic, range(4), codec) for magic in (0, 1) for codec in codecs]
    return [*new, aborted, *old]


def mutated(rng, whole):
    """A batch with some bytes changed, or some taken out or put in; often with a right checksum."""
    data = bytearray(whole)
    for _ in range(rng.choice([1, 1, 2, 3, 8])):
        at = rng.randrange(len(data))
        if (what := rng.random()) < 0.8:
            data[at] = rng.choice(BYTES) if what < 0.4 else rng.randrange(256)
        elif what < 0.9:
            del data[at : at + rng.randrange(1, 9)]
        else:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
    if rng.random() < 0.7 and len(data) > 61:
        if data[16] < 2:
            data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
        else:
            data[8:12] = (len(data) - 12).to_bytes(4, "big")
            data = bytearray(with_checksum(data))
    return bytes(data)


def mutate(seed, count):
    """How many could be read all the same, and how many not."""

    def hung(*_):
        raise AssertionError("one batch takes too long")

    rng, some = random.Random(seed), originals()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counts = [0, 0]
    kept = signal.signal(signal.SIGALRM, hung)
    try:
        for number in range(count):
            data = mutated(rng, rng.choice(some))
            signal.alarm(CASE_SECONDS_MAX)
            try:
                read(data, aborted=[(1, 0)])
                counts[0] += 1
            except Unreadable as error:
                _, _, offset, why = error.args
                assert offset >= 0
                assert str(why)
                counts[1] += 1
            except BaseException as error:
                error.add_note(f"seed {seed}, batch {number}: {data.hex()}")
                raise
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, kept)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < GROWTH_KIB_MAX, f"{grown:,} KiB"
    return counts


def resident_kib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


def test_some():
    good, bad = mutate(seed=1, count=3_000)
    assert good > 50
    assert bad > 1_000


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many():
    began, parts = 0, 100
    for seed in range(2, 2 + parts):
        print(seed, mutate(seed, COUNT // parts), resident_kib(), flush=True)
        began = began or resident_kib()
        assert resident_kib() - began < KEPT_KIB_MAX, "what was damaged is kept"
