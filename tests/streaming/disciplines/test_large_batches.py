"""Batches with more bytes than an array of Arrow has room for, 2 GiB: one pack stands for many."""

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow as pa

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.arrow.ipc import to_body
from streaming.arrow.pack import taken, unpacked
from streaming.arrow.schemas import RECORD
from streaming.disciplines import broadcast
from streaming.disciplines.broadcast import works
from streaming.disciplines.channels.codec import decode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.multicast.batch.core import BatchOperator
from streaming.disciplines.multicast.plan import BatchMulticastPlan
from streaming.disciplines.state_row import StateRow
from tests.streaming.broadcast_harness import broadcast_plan
from tests.streaming.disciplines.channels.plans import pack, plan

RECORDS, TIMES = 64, 34
VALUE = bytes(2**20)


def row(offset, *, topic=0, value=VALUE):
    headers = [{"key": "label", "value": b"%d" % offset}]
    place = {"topic": topic, "partition": 0, "offset": offset, "timestamp": 5}
    return {**place, "key": b"a", "value": value, "headers": headers}


def test_a_shard_of_channels_takes_such_a_batch():
    rules = Rules(LinearLabels(), drop_duplicates=True)
    p = replace(plan(rules), input_commands=("skip",))
    command = row(0, topic=1, value=json.dumps({"op": "skip", "channel": "a"}).encode())
    packs = [*pack(list(map(row, range(RECORDS))), p) * TIMES, *pack([command], p)]
    before = decode_shard(StateRow(), record_schema(p))
    after, writes = step_shard(before, packs, 1000, p)
    delivered = sum(len(table) for topic, table in writes if topic == p.output)
    assert (delivered, after.totals.dropped) == (RECORDS, RECORDS * (TIMES - 1))
    assert len(after.totals.answers) == 1


def test_shards_that_see_all_take_such_a_batch_in_stretches():
    records = pa.RecordBatch.from_pylist(list(map(row, range(RECORDS))), schema=RECORD)
    command = pa.RecordBatch.from_pylist([row(0, topic=1, value=b"{}")], schema=RECORD)
    tables = unpacked([*[to_body(records)] * TIMES, to_body(command)])
    stretches = works(tables, 1, 5)
    first, second = next(stretches), next(stretches)
    assert (len(first.commands), len(first.records)) == (1, 0)
    assert (len(second.commands), len(second.records)) == (0, 15)


def test_rows_are_taken_from_tables_in_any_order():
    rng = np.random.default_rng(1)
    numbers = [np.arange(0), np.arange(5), np.arange(5, 6), np.arange(6, 40)]
    tables = [
        pa.table({"n": each, "text": pa.array(map(str, each), pa.string())}) for each in numbers
    ]
    for count in (0, 1, 3, 40):
        rows = rng.choice(40, count, replace=False)
        assert taken(tables, rows)["n"].to_pylist() == rows.tolist()
        assert taken(tables, rows)["text"].to_pylist() == [str(each) for each in rows]


def test_lists_of_destinations_are_read_in_stretches(monkeypatch):
    """They take 42 times as much memory meanwhile."""
    names = [b"p%04d" % n for n in range(2_000)]
    lists = [b",".join(names[n:] + names[:n]) for n in range(60)]
    headers = [[{"key": "to", "value": each}] for each in lists]
    records = [{**row(n, value=b""), "headers": each} for n, each in enumerate(headers)]
    body = to_body(pa.RecordBatch.from_pylist(records, schema=RECORD))
    peaks = []
    for limit in (broadcast.WORK_BYTES_MAX, len(lists[0]) * 3):
        monkeypatch.setattr(broadcast, "WORK_BYTES_MAX", limit)
        p = broadcast_plan(BatchMulticastPlan, shards=1)
        tracemalloc.start()
        core = BatchOperator(p).core(0)
        rows = sum(len(each) for each in BatchOperator(p).rows(0, core, [body]))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert rows
        assert core.totals.delivered == len(names) * len(lists)
    assert peaks[1] < peaks[0] / 4
