"""What a shard holds, in segments, against a plain list of records."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from streaming.arrow.schemas import RECORD
from streaming.disciplines.channels import held_records, shard_files
from streaming.disciplines.channels.held_records import HeldRecords, Pool, Segment
from streaming.disciplines.channels.shard_files import ShardFiles


def records(rng, first, count, size=40):
    return [
        {
            "topic": 0,
            "partition": 0,
            "offset": first + n,
            "timestamp": n,
            "key": rng.choice([None, b"", b"k"]),
            "value": rng.choice([None, rng.randbytes(rng.randrange(2 * size))]),
            "headers": rng.choice([None, [], [{"key": "label", "value": b"%d" % n}]]),
        }
        for n in range(count)
    ]


def table(rows):
    return pa.Table.from_pylist(rows, schema=RECORD)


def stepped(rng, held, model, arriving, stays):
    """A step of both: some of what is held stays, in its order, and some of what arrives."""
    order = rng.sample(range(len(arriving)), len(arriving))  # of arrival; rows lie in another
    everything = [*model, *(arriving[at] for at in order)]
    numbers = sorted(rng.sample(range(len(everything)), round(stays * len(everything))))
    new = [n for n in numbers if n >= len(model)]
    for n in new:  # they are put in between
        numbers.remove(n)
        numbers.insert(rng.randrange(len(numbers) + 1), n)
    leaving = np.array([n for n in range(len(everything)) if n not in set(numbers)], np.int64)
    kept = np.array(numbers, np.int64)

    outdated = held.outdated(kept)
    wanted = outdated[held.segment]
    wanted[leaving[leaving < len(held)]] = True
    pool = held.pool(wanted, table(arriving), np.array(order, np.int64))
    assert pool.take(leaving).to_pylist() == [everything[n] for n in leaving]
    return held.after(kept, outdated, pool), [everything[n] for n in numbers]


@pytest.mark.parametrize("in_files", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_as_a_list_of_records(seed, in_files, monkeypatch, tmp_path):
    rng = random.Random(seed)
    monkeypatch.setattr(held_records, "SEGMENT_BYTES", rng.choice([200, 2_000, 2**22]))
    monkeypatch.setattr(shard_files, "FILE_BYTES_MIN", 400)
    files = ShardFiles(tmp_path) if in_files else None
    held, model, sent = HeldRecords.empty(RECORD, files), [], 0
    for _ in range(30):
        count = rng.choice([0, 1, 5, 60])
        arriving = records(rng, sent, count)
        sent += count
        held, model = stepped(rng, held, model, arriving, rng.choice([0, 0.3, 0.8, 1]))
        assert len(held) == len(model)
        assert held.table().to_pylist() == model
        lasting = np.bincount(held.segment, minlength=len(held.segments))
        for lives, segment in zip(lasting.tolist(), held.segments, strict=True):
            assert 0 < segment.rows <= (4 if segment.name else 2) * lives


def test_small_batches_leave_few_segments_and_write_a_record_few_times(monkeypatch):
    written = []
    made = Segment.of
    monkeypatch.setattr(
        Segment, "of", lambda table, *told: written.append(len(table)) or made(table, *told)
    )
    rng = random.Random(1)
    held, model = HeldRecords.empty(RECORD), []
    for batch in range(256):
        held, model = stepped(rng, held, model, records(rng, 4 * batch, 4), 1)
        assert len(held.segments) <= 9
    assert len(held) == 1024
    assert sum(written) <= 1024 * 9


def test_what_stays_is_not_written_again(monkeypatch):
    rng = random.Random(1)
    monkeypatch.setattr(held_records, "SEGMENT_BYTES", 2_000)
    held = HeldRecords.of(table(records(rng, 0, 500)))
    before = [each.line for each in held.segments]
    assert len(before) > 5
    arriving = records(rng, 500, 500)
    kept = np.arange(1000)
    pool = held.pool(held.outdated(kept)[held.segment], table(arriving), np.arange(500))
    after = held.after(kept, held.outdated(kept), pool)
    assert [each.line for each in after.segments][: len(before) - 1] == before[:-1]


def test_large_records_go_alone():
    rng = random.Random(1)
    rows = [{**each, "value": bytes(3 * 2**20)} for each in records(rng, 0, 4)]
    pool = Pool([table(rows)], np.arange(4))
    assert [*pool.pieces(np.arange(4))] == [slice(n, n + 1) for n in range(4)]
    assert [each.rows for each in HeldRecords.of(table(rows)).segments] == [1, 1, 1, 1]
    small = Pool([table(records(rng, 0, 1000))], np.arange(1000))
    assert [*small.pieces(np.arange(1000))] == [slice(0, 1000)]


def test_more_may_leave_than_an_array_or_memory_has_room_for(tmp_path):
    """An array has at most 2 GiB; rows of files are read as they leave, piece by piece."""
    (record,) = records(random.Random(1), 0, 1)
    one = HeldRecords.of(table([{**record, "value": bytes(2**20)}]), ShardFiles(tmp_path))
    count = 2_100
    rows = np.arange(count)
    held = replace(one, segments=[*one.segments] * count, segment=rows, row=np.zeros_like(rows))
    before = pa.total_allocated_bytes()
    pool = held.pool(rows >= 0, table(records(random.Random(2), 1, 5)), np.arange(5))
    everything = np.arange(count + 5)
    taken = 0
    for piece in pool.pieces(everything):
        taken += len(pool.take(everything[piece]))
        assert pa.total_allocated_bytes() - before < 16 * 2**20
    assert taken == len(everything)
