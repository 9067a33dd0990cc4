"""A shard's step on real packs: replays give the same bytes, state survives its encoding."""

import json
import random
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sequencer.channels import Full, Rules, Skip
from sequencer.channels.delays import Quantile
from sequencer.custom_labels import CustomLabels
from sequencer.labels import CyclicLabels, LinearLabels
from streaming.arrow import output
from streaming.arrow.columns import last_headers
from streaming.arrow.ipc import from_ipc, to_ipc
from streaming.arrow.kafka_rows import KAFKA_ROW
from streaming.arrow.output import output_rows
from streaming.arrow.partitioner import murmur2, partitions_of
from streaming.arrow.schemas import HEADERS
from streaming.arrow.totals import Totals
from streaming.disciplines.channels.codec import decode_shard, encode_shard
from streaming.disciplines.channels.core import step_shard
from streaming.disciplines.channels.events import event_id
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.channels.sql import COLUMNS, expand_headers, header_name
from streaming.disciplines.state_keys import shard_keys
from streaming.disciplines.state_row import StateRow
from tests.streaming.disciplines.channels.plans import pack, plan


def rows(rng, count, labels):
    out = []
    for offset in range(count):
        headers = [
            {
                "key": "label",
                "value": str(labels.at(max(0, offset // 4 + rng.randrange(-5, 6)))).encode(),
            }
        ]
        if rng.random() < 0.05:
            headers = rng.choice([None, [], [{"key": "label", "value": b"zz"}]])
        if rng.random() < 0.05 and headers:
            headers.append({"key": "epoch", "value": rng.choice([b"1", b"x"])})
        if rng.random() < 0.01 and headers:
            headers.append({"key": "fin", "value": None})
        out.append(
            {
                "topic": 0,
                "partition": offset % 3,
                "offset": offset // 3,
                "timestamp": 1000 + offset,
                "key": rng.choice([b"a", b"b", b"", b"\xff", None]),
                "value": rng.choice([None, b"", b"v%d" % offset]),
                "headers": headers,
            }
        )
    return out


def packs(records, rng):
    """The records in several packs, in any order."""
    records = records[:]
    rng.shuffle(records)
    cuts = sorted(rng.sample(range(len(records) + 1), 3))
    return [
        body
        for a, b in zip([0, *cuts], [*cuts, len(records)], strict=True)
        for body in pack(records[a:b], plan(Rules(LinearLabels())))
    ]


@pytest.mark.parametrize("seed", range(8))
def test_a_replayed_batch_gives_the_same_bytes(seed):
    labels = [LinearLabels(), CyclicLabels(64), CustomLabels("0", lambda t: str(int(t) + 1))][
        seed % 3
    ]
    rules = Rules(
        labels,
        gap=Skip(40, Quantile(0.9, 5, 40)) if seed % 2 else Skip(40),
        held_max=6,
        window=25,
        full=list(Full)[seed % 2],
        retire_after_ms=300,
    )
    if seed % 4 > 1:
        rules = replace(rules, others=(("[ab]", replace(rules, gap=Skip(20), held_max=3)),))
    p = plan(rules)
    schema = record_schema(p)
    records = rows(random.Random(seed), 300, labels)
    ends = []
    for shuffle in range(3):
        rng = random.Random(100 + shuffle)
        row, outputs = StateRow(), []
        for batch in range(5):
            shard = decode_shard(row, schema)
            given = packs(records[batch * 60 : batch * 60 + 60], rng)
            after, writes = step_shard(shard, given, 1000 + 30 * batch, p)
            assert after.totals.read == 60
            outputs.append(pd.concat(output_rows(0, writes, after.totals)).to_dict("list"))
            row = encode_shard(after)
        ends.append((row, outputs))
    assert ends[0] == ends[1] == ends[2]
    totals = json.loads(ends[0][0].totals)
    ended = totals["delivered"] + sum(totals["rejected"].values()) + totals["held"]
    assert totals["seen"] == 300 == ended
    assert ends[0][1][1]["wrote_before"][0]


def test_rejects_tell_where_they_belong():
    """Behind which delivery, and which event gave their label up; in any channel's name."""
    p = plan(Rules(LinearLabels(), held_max=1, full=Full.SKIP))
    shard = decode_shard(StateRow(), record_schema(p))
    labels = [b"0", b"2", b"4", b"1", b"0", b"x", b"3"]
    for now_ms, sent in ((1000, labels[:3]), (2000, labels[3:])):
        records = [
            {"topic": 0, "partition": 0, "offset": n, "timestamp": 0, "key": key, "value": b"v"}
            | {"headers": [{"key": "label", "value": label}]}
            for n, (label, key) in enumerate(
                (each, key) for each in sent for key in (b"a", b"\xff")
            )
        ]
        after, writes = step_shard(shard, pack(records, p), now_ms, p)
        shard = decode_shard(encode_shard(after), record_schema(p))
    (table,) = [table for topic, table in writes if topic == p.rejects]
    assert table.column_names[-3:] == ["reject-after", "reject-gap", "reject-detail"]
    places = zip(
        *(table[name].to_pylist() for name in ("key", *table.column_names[-3:])), strict=True
    )
    told = [(after, gap, detail) for key, after, gap, detail in places if key == b"\xff"]
    assert told == [
        ("1000/1", "p:gap:0xff:1000:0:1", None),
        ("1000/1", None, None),
        ("1000/1", None, None),
    ]


def test_the_last_header_counts_also_in_slices_and_beside_nulls():
    lists = pa.array(
        [
            [("a", b"0")],
            [("x", b"1"), ("y", None), ("x", b"2")],
            None,
            [],
            [("x", None)],
            [("x", b"")],
        ],
        HEADERS,
    )
    for start in range(3):
        (_, missing), (values, present) = last_headers(lists[start:], ("z", "x"))
        assert not missing.any()
        want = [None, b"2", None, None, None, b""][start:]
        assert values.to_pylist() == want
        assert present.tolist() == [False, True, False, False, True, True][start:]


def test_partitions_are_those_of_the_java_client():
    from kafka.partitioner.default import murmur2 as reference

    keys = [bytes(random.Random(n).randbytes(n % 23)) for n in range(300)]
    mine = murmur2(pa.array(keys, pa.binary()))
    assert (mine.astype(np.int64) & 0xFFFFFFFF).tolist() == [
        reference(k) & 0xFFFFFFFF for k in keys
    ]
    places = partitions_of(pa.array(keys, pa.binary()), 7).tolist()
    assert places == [(reference(k) & 0x7FFFFFFF) % 7 for k in keys]


def test_shard_keys_are_distinct_and_even():
    for shards, partitions in [(16, 2), (16, 3), (7, 7), (1, 1), (1024, 32)]:
        keys = shard_keys(shards, partitions)
        assert len(set(keys)) == shards


def test_header_calls_in_expressions():
    assert header_name(" header('a b') ") == "a b"
    assert header_name("header('a') + 1") is None
    assert "h.key = 'n'" in expand_headers("cast(header('n') as int) + header( 'm' )")


def test_ipc_of_a_slice_carries_only_the_slice():
    table = pa.table({"v": [b"x" * 1000] * 1000}, schema=pa.schema([("v", pa.binary())]))
    assert len(to_ipc(table.slice(10, 5))) < 10_000
    assert from_ipc(to_ipc(table.slice(10, 5))).num_rows == 5


def test_much_for_a_topic_is_cut_into_rows(monkeypatch):
    table = pa.table({"key": [b"%d" % n for n in range(100)], "value": [b"x" * 50] * 100})
    writes = [("t", table), ("none", table.slice(0, 0))]
    whole = pd.concat(output_rows(0, writes, Totals()))
    monkeypatch.setattr(output, "ROW_BYTES_MAX", 1000)
    cut = pd.concat(output_rows(0, writes, Totals()))
    assert len(whole) == 1
    assert len(cut) > 5
    assert pa.concat_tables(map(from_ipc, cut["rows"])).to_pylist() == table.to_pylist()
    assert cut["totals"].tolist() == [*[""] * (len(cut) - 1), *whole["totals"]]


def test_ids_of_events_name_one_channel_each():
    keys = [b"\xff\xfe", b"0xfffe", b"0x", b"", b"a:1", b"a"]
    assert len({event_id("p", "gap", key, 1000, 0, 1) for key in keys}) == len(keys)
    assert event_id("p", "gap", b"a", 1000, 0, 1) == "p:gap:a:1000:0:1"


def test_expressions_may_name_the_columns_that_rows_have():
    names = [column.split()[0] for column in re.sub("<.*?>", "", KAFKA_ROW).split(", ")]
    assert [name for name in names if not name.startswith("_")] == [*COLUMNS]
