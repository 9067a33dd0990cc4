"""A shard's state comes back as it was."""

from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sequencer.channels import Full, Held, Rules, ShardState, Skip
from sequencer.channels.delays import no_delays, with_samples
from sequencer.channels.runs import Runs
from sequencer.channels.state import COLUMNS, Skipped
from sequencer.custom_labels import CustomLabels
from sequencer.labels import LinearLabels
from streaming.arrow.totals import Totals
from streaming.disciplines.channels import shard_files
from streaming.disciplines.channels.codec import ChannelShard, decode_shard, encode_shard
from streaming.disciplines.channels.describe import describe
from streaming.disciplines.channels.held_records import HeldRecords
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.channels.shard_files import ShardFiles
from tests.streaming.disciplines.channels.plans import plan

RULES = Rules(
    LinearLabels(),
    gap=Skip(1000),
    held_max=4,
    full=Full.SKIP,
    window=25,
    retire_after_ms=300,
)
WIDE = st.integers(-(2**62), 2**62)


@st.composite
def shards(draw):
    keys = draw(st.lists(st.binary(max_size=9), unique=True, max_size=8))

    def column(kind, size):
        return np.array(draw(st.lists(kind, min_size=size, max_size=size)), np.int64)

    def of_channels(most):
        rows = st.lists(st.integers(0, len(keys) - 1), max_size=most) if keys else st.just([])
        return np.array(sorted(draw(rows)), np.int64)

    numbers = {name: column(st.one_of(st.integers(-1, 3), WIDE), len(keys)) for name in COLUMNS}
    of_held, of_ranges = of_channels(20), of_channels(5)
    fin = column(st.integers(0, 1), len(of_held)).astype(np.bool_)
    held = Held(of_held, column(WIDE, len(of_held)), column(WIDE, len(of_held)), fin)
    ranges = (column(WIDE, len(of_ranges)) for _ in range(5))
    of_runs = of_channels(5)
    runs = Runs(of_runs, *(column(WIDE, len(of_runs)) for _ in range(6)))
    state = ShardState(
        pa.array(keys, pa.binary()),
        **numbers,
        held=held,
        skipped=Skipped(of_ranges, *ranges),
        runs=runs,
        clock_ms=draw(st.integers(0, 2**50)),
        globs=("a*", "[b]"),
        delays=with_samples(no_delays(3), np.array([0, 2, 2]), np.array([0, 30, 2**50])),
    )
    schema = record_schema(plan(RULES))
    record = dict.fromkeys(schema.names) | {"topic": 0, "partition": 0, "timestamp": 0}
    records = [record | {"offset": n, "value": b"%d" % n} for n in range(len(held))]
    table = pa.Table.from_pylist(records, schema=schema)
    return ChannelShard(state, HeldRecords.of(table), Totals(seen=3))


def as_lists(state):
    """All that a state has, as what can be compared."""
    told = {"keys": state.keys.to_pylist(), "clock_ms": state.clock_ms}
    told |= {"globs": state.globs, "delays": state.delays.tolist()}
    told |= {name: column.tolist() for name, column in state.columns().items()}
    for part in (state.held, state.skipped, state.runs):
        told |= {
            (type(part), each.name): getattr(part, each.name).tolist() for each in fields(part)
        }
    return told


@given(shard=shards())
def test_what_comes_back(shard):
    row = encode_shard(shard)
    found = decode_shard(row, shard.records.schema)
    assert as_lists(found.state) == as_lists(shard.state)
    assert found.state.held.fin.dtype == np.bool_
    assert found.records.table().to_pylist() == shard.records.table().to_pylist()
    assert found.totals == shard.totals
    assert encode_shard(found) == row


@given(shard=shards())
def test_what_comes_back_from_a_file(shard):
    """With the same records: only a state's tables lie elsewhere, and its text says where."""
    schema = shard.records.schema
    with TemporaryDirectory() as folder, patch.object(shard_files, "FILE_BYTES_MIN", 0):
        files = ShardFiles(Path(folder))
        there = replace(shard, records=replace(shard.records, files=files))
        row = encode_shard(there)
        assert row == encode_shard(there), "a repeated batch writes the same file"
        (path,) = files.folder.iterdir()
        found = decode_shard(row, schema, files)
        assert found.names == {path.name}
        assert found.records.made == shard.records.made + 1
        assert as_lists(found.state) == as_lists(shard.state)
        assert found.records.table().to_pylist() == shard.records.table().to_pylist()
        assert row.core.split("\n")[:3] == ["", "", ""]


def test_a_part_of_an_array_of_names():
    """As Arrow leaves one that is cut from another."""
    whole = pa.array([b"gone", b"a", b"", b"later"], pa.binary()).slice(1, 2)
    numbers = {name: np.arange(2) for name in COLUMNS}
    state = ShardState(whole, **numbers, held=Held.empty(), skipped=Skipped.empty())
    schema = record_schema(plan(RULES))
    row = encode_shard(ChannelShard(state, HeldRecords.empty(schema), Totals()))
    assert decode_shard(row, schema).state.keys.to_pylist() == [b"a", b""]


def test_a_channel_at_the_end_of_its_sequence_has_no_next_label():
    labels = CustomLabels("a", lambda label: next(each for each in "bcd" if each > label))
    numbers = {name: np.zeros(1, np.int64) for name in COLUMNS} | {"frontier": np.array([4])}
    skipped = Skipped(*(np.array([value]) for value in (0, 3, 4, 0, 1, 0)))
    state = ShardState(pa.array([b"k"]), **numbers, held=Held.empty(), skipped=skipped)
    shard = ChannelShard(state, HeldRecords.empty(record_schema(plan(RULES))), Totals())
    (shown,) = describe(shard, Rules(labels, window=10))
    assert (shown["next"], shown["given_up"]) == (None, [("d", None)])
