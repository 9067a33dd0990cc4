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
from streaming.disciplines.channels.shard_files import ShardFiles
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
