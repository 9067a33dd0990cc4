"""A shard's steps on packs whose large values were compressed when they were read.

What it writes is judged by kafka-python, against the same steps without blocks.
"""

import random
from dataclasses import replace

import pandas as pd
import pyarrow as pa
import pytest

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.arrow.ipc import from_body, from_ipc
from streaming.arrow.schemas import has_blocks, is_encoded
from streaming.disciplines.channels import held_records, shard_files
from streaming.disciplines.channels.codec import decode_shard
from streaming.disciplines.channels.core import ChannelOperator
from streaming.disciplines.channels.records import arrival_schema, make_packs, record_schema
from streaming.disciplines.channels.reshard import reshard
from streaming.disciplines.channels.shard_files import ShardFiles
from streaming.disciplines.shards import state_keys
from streaming.disciplines.state_keys import shard_of_name, shards_of
from streaming.wire.blocks import LARGE_BYTES_MIN, plain_values
from streaming.wire.encoded import batches_of
from tests.seeds import seeds
from tests.streaming.disciplines.channels.attempts import State, run
from tests.streaming.disciplines.channels.plans import plan
from tests.streaming.wire.reading import read

SIZES = (0, 10, 700, LARGE_BYTES_MIN - 1, LARGE_BYTES_MIN, 20_000)


def records(rng, count):
    """Two channels, disordered; some repeated, some without a label."""
    labels = sorted(range(count), key=lambda n: n + rng.uniform(0, 20))
    out = []
    for offset, label in enumerate(labels):
        text = rng.randbytes(50) * 400
        out.append(
            {
                "topic": 0,
                "partition": offset % 2,
                "offset": offset // 2,
                "timestamp": 1_000 + offset,
                "key": rng.choice([b"a", b"b"]),
                "value": rng.choice([None, *(text[:size] for size in SIZES)]),
                "headers": [{"key": "label", "value": b"%d" % (label // 2)}][: offset % 17],
            }
        )
    return out


def packed(given, p, *, blocks):
    """Packs of one shard, as the ingress makes them."""
    if not given:
        return []
    table = pa.Table.from_pylist(given, schema=record_schema(p))
    made = make_packs(table, [7], arrival_schema(p), "label", 1, blocks=blocks)
    return made["rows"].to_pylist()


def written(frames):
    """What readers find, by topic and partition: those of one batch of a shard."""
    found = {}
    for topic, blob in frames:
        table = from_ipc(blob)
        assert is_encoded(table)
        for each in batches_of(table):
            there, _ = read(each.finished((1, 0), 0, transactional=False))
            found.setdefault((topic, each.partition), []).extend(there)
    return found


def step(operator, state, packs):
    """The topics and tables that a batch writes; its state is kept."""
    frames = pd.concat([*operator((7,), iter([pd.DataFrame({"rows": packs})]), state)])
    state.kept = state.new
    return [each for each in zip(frames["topic"], frames["rows"], strict=True) if each[0]]


@pytest.mark.parametrize("seed", seeds(2, 4))
@pytest.mark.parametrize("files", [False, True])
def test_the_same_is_written_with_blocks(seed, files, tmp_path, monkeypatch):
    monkeypatch.setattr(shard_files, "FILE_BYTES_MIN", 2_000)
    monkeypatch.setattr(held_records, "SEGMENT_BYTES", 20_000)
    rng = random.Random(seed)
    p = replace(plan(Rules(LinearLabels())), compression="lz4")
    folders = [str(tmp_path / name) if files else "" for name in ("blocks", "split", "plain")]
    operators = [ChannelOperator(replace(p, folder=folder)) for folder in folders]
    states = [State() for _ in operators]
    given, first, with_some = records(rng, 300), 0, 0
    while first < len(given):
        some = given[first : first + rng.randrange(1, 60)]
        first += len(some)
        cut = rng.randrange(len(some) + 1)
        packs = packed(some, p, blocks=True)
        parts = [*packed(some[cut:], p, blocks=True), *packed(some[:cut], p, blocks=True)]
        plain = packed(some, p, blocks=False)
        schema = arrival_schema(p)
        with_some += any(has_blocks(from_body(each, schema).schema) for each in packs)
        assert not any(has_blocks(from_body(each, schema).schema) for each in plain)
        assert run(operators[0], states[0], packs) == run(operators[0], states[0], packs)
        got = [step(*each) for each in zip(operators, states, (packs, parts, plain), strict=True)]
        assert got[0] == got[1], "however records were packed, the bytes are the same"
        assert states[0].kept == states[1].kept
        assert written(got[0]) == written(got[2])
    assert with_some > 3
    schema = record_schema(p)
    shards = [
        decode_shard(state.kept, schema, ShardFiles.of(operator.plan, 7))
        for operator, state in zip(operators, states, strict=True)
    ]
    assert len(shards[0].records) > 0
    assert any(each.blocks for each in shards[0].records.segments)
    tables = [shard.records.table() for shard in shards]
    assert tables[0].to_pylist() == tables[1].to_pylist() == tables[2].to_pylist()
    assert plain_values(tables[0]) is tables[0]


@pytest.mark.parametrize("value", [None, b"", b"x" * 100])
def test_what_a_shard_writes_does_not_depend_on_what_it_was_packed_with(value):
    """Where a table of the ingress ends is a matter of time, and so which shards' rows are in it."""
    p = replace(plan(Rules(LinearLabels())), compression="lz4")
    row = {"topic": 0, "partition": 0, "timestamp": 1_000}
    small = [
        {
            **row,
            "offset": n,
            "key": b"a%d" % (n % 500),
            "value": value,
            "headers": [label(n // 500)],
        }
        for n in range(30_000)
    ]
    large = {**row, "offset": 30_000, "key": b"b", "value": bytes(5_000), "headers": [label(0)]}
    schema, keys = arrival_schema(p), [7, 8]
    own = shards_of(pa.array([each["key"] for each in small], pa.binary()), 2)
    other = next(n for n in range(99) if shards_of(pa.array([b"b%d" % n], pa.binary()), 2)[0])
    given = [each for each, shard in zip(small, own, strict=True) if not shard]
    alone, both = (
        make_packs(
            pa.Table.from_pylist(rows, schema=record_schema(p)),
            keys,
            schema,
            "label",
            1,
            blocks=True,
        )
        for rows in (given, [*given, {**large, "key": b"b%d" % other}])
    )
    packs = [each["rows"][0].as_py() for each in (alone, both)]
    assert [has_blocks(from_body(each, schema).schema) for each in packs] == [False, True]
    wrote = [step(ChannelOperator(p), State(), [each]) for each in packs]
    assert len(wrote[0]) > 1 or value is None or not value
    assert wrote[0] == wrote[1]


@pytest.mark.parametrize("moved", [True, False])
def test_what_waits_without_blocks_is_written_alike_whatever_comes_with_it(moved):
    """Behind `rescale`, or of a time when the service compressed otherwise."""
    p = replace(plan(Rules(LinearLabels())), compression="lz4")
    row = {"topic": 0, "partition": 0, "timestamp": 1_000, "key": b"a"}
    rng = random.Random(1)
    waits = [
        {**row, "offset": n, "value": rng.randbytes(50) * 200, "headers": [label(n + 1)]}
        for n in range(30)
    ]
    first = {**row, "offset": 100, "value": b"x", "headers": [label(0)]}
    state = State()
    before = p if moved else replace(p, compression="zstd")
    assert not step(ChannelOperator(before), state, packed(waits, p, blocks=moved))
    if moved:
        rows = dict(reshard(p, p, [(7, state.kept)]).rows)
        state.kept = rows[state_keys(p)[shard_of_name(b"a", p.shards)]]
    kept, wrote = state.kept, []
    for others in ([], [{**row, "offset": 101, "value": bytes(5_000), "headers": []}]):
        again = State()
        again.kept = kept
        table = pa.Table.from_pylist([first, *others], schema=record_schema(p))
        made = make_packs(table, [7], arrival_schema(p), "label", 1, blocks=True)
        (packs,) = made["rows"].to_pylist()
        rows = step(ChannelOperator(p), again, [packs])
        wrote.append([blob for topic, blob in rows if topic == p.output])
    assert wrote[0] == wrote[1]


def label(number):
    return {"key": "label", "value": b"%d" % number}


@pytest.mark.parametrize("compression", ["none", "gzip", ""])
def test_a_service_that_compresses_otherwise_goes_on_with_blocks(compression):
    """Its checkpoint has records that wait, of a time when it compressed with lz4."""
    p = plan(Rules(LinearLabels()))
    state = State()
    waits = records(random.Random(1), 60)
    waits = [each for each in waits if each["headers"] and each["key"] == b"a"]
    for at, each in enumerate(waits):
        each["headers"] = [{"key": "label", "value": b"%d" % (at + 1)}]
    first = waits[0] | {"headers": [{"key": "label", "value": b"0"}], "offset": 999}
    lz4 = ChannelOperator(replace(p, compression="lz4"))
    assert not step(lz4, state, packed(waits, p, blocks=True))
    operator = ChannelOperator(replace(p, compression=compression))
    ((topic, blob),) = step(operator, state, packed([first], p, blocks=False))
    assert topic == p.output
    values = [each["value"] for each in (first, *waits)]
    if compression:
        ((_, found),) = written([(topic, blob)]).items()
        assert [value for _, _, value, _ in found] == values
    else:
        assert from_ipc(blob)["value"].to_pylist() == values
