"""A shard's files: what they keep, when they go, what is said where they cannot."""

import os
import random
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from sequencer.channels import Rules
from sequencer.labels import LinearLabels
from streaming.disciplines.channels import codec, held_records, shard_files
from streaming.disciplines.channels.codec import decode_shard
from streaming.disciplines.channels.core import ChannelOperator
from streaming.disciplines.channels.records import record_schema
from streaming.disciplines.channels.shard_files import ShardFiles
from streaming.errors import StorageUnavailable
from tests.streaming.disciplines.channels.attempts import State, run
from tests.streaming.disciplines.channels.plans import pack, plan

BODY = pa.py_buffer(b"some bytes" * 100)


def listed(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture(autouse=True)
def as_a_new_process(monkeypatch):
    monkeypatch.setattr(shard_files, "_checked", set())
    monkeypatch.setattr(shard_files, "_swept", set())


@pytest.fixture
def files(tmp_path):
    return ShardFiles(tmp_path / "held" / "7", synced=True)


def test_what_is_put_is_got_under_a_name_of_its_number_and_content(files):
    name = files.put(BODY, 15)
    assert files.put(pa.py_buffer(BODY.to_pybytes()), 15) == name
    assert files.put(pa.py_buffer(b"other"), 15) != name
    assert files.put(BODY, 16) != name
    assert files.get(name).to_pybytes() == BODY.to_pybytes()
    assert len(listed(files.folder)) == 3


@pytest.mark.parametrize("damage", ["changed", "cut", "gone"])
def test_a_file_that_is_not_what_was_written_is_told(files, damage, monkeypatch):
    name = files.put(BODY, 0)
    path = files.folder / name
    if damage == "gone":
        path.unlink()
    else:
        content = BODY.to_pybytes()
        path.write_bytes(content[:-1] if damage == "cut" else b"S" + content[1:])
    monkeypatch.setattr(shard_files, "_checked", set())  # a worker that did not write it
    with pytest.raises(StorageUnavailable, match=name) as told:
        files.get(name)
    assert "will be repeated" in str(told.value)
    assert "backup" in str(told.value)


def test_what_cannot_be_written_is_told(files):
    files.folder.parent.mkdir()
    files.folder.write_text("no folder")
    with pytest.raises(StorageUnavailable, match="cannot be written") as told:
        files.put(BODY, 0)
    assert "its disk has room" in str(told.value)


def test_removing_what_is_gone_is_no_fault(files):
    name = files.put(BODY, 0)
    files.remove([name, "never was"])
    files.remove([name])
    assert not listed(files.folder)


def test_two_attempts_with_one_process_id_do_not_share_a_file(files, monkeypatch):
    """Containers number their processes alike. The other one opened its file, and was killed."""
    rename = Path.replace

    def after_the_other(path, target):
        monkeypatch.setattr(Path, "replace", rename)
        with monkeypatch.context() as other:
            other.setattr(Path, "open", opened_and_killed)
            with pytest.raises(Killed):
                files.put(BODY, 7)
        return rename(path, target)

    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(Path, "replace", after_the_other)
    name = files.put(BODY, 7)
    assert (files.folder / name).read_bytes() == BODY.to_pybytes()


class Killed(BaseException):
    """No code of the process runs any more."""


def opened_and_killed(path, _mode):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    raise Killed


@pytest.mark.parametrize("ahead_s", [-86_400 * 400, 0, 86_400 * 400])
def test_what_a_killed_process_left_goes_whatever_the_clock_says(files, ahead_s):
    """Numbers tell: below the state's next one, what the state does not name never will be named.

    From that number on, an attempt at this batch may be writing.
    """
    known, old, new, next_one = (files.put(pa.py_buffer(b"%d" % n), n) for n in range(4))
    half = {n: f"{n:x}-0123abcd.{'5' * 32}" for n in (1, 3)}
    for path in half.values():
        (files.folder / path).write_bytes(b"ha")
    for path in files.folder.iterdir():
        os.utime(path, (time.time() + ahead_s,) * 2)
    files.sweep({known, new}, 3)
    left = sorted([known, new, next_one, half[3]])
    assert listed(files.folder) == left
    assert old not in left
    files.sweep({known}, 4)  # once in a process
    assert listed(files.folder) == left


def some_records(rng, offset, labels):
    return [
        {
            "topic": 0,
            "partition": 0,
            "offset": offset + at,
            "timestamp": 1,
            "key": b"k",
            "value": rng.randbytes(3_000),
            "headers": [{"key": "label", "value": b"%d" % label}],
        }
        for at, label in enumerate(labels)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_every_attempt_at_a_batch_finds_its_files_and_none_is_left_at_the_end(
    seed, tmp_path, monkeypatch
):
    monkeypatch.setattr(shard_files, "FILE_BYTES_MIN", 150)
    monkeypatch.setattr(held_records, "SEGMENT_BYTES", 20_000)
    rng = random.Random(seed)
    p = plan(Rules(LinearLabels()))
    operators = [ChannelOperator(replace(p, folder=folder)) for folder in (str(tmp_path), "")]
    states = [State(), State()]
    labels = sorted(range(200), key=lambda n: n + rng.uniform(0, 30))
    folder, most, tables = tmp_path / "held" / "7", 0, set()
    for first in range(0, 200, 10):
        records = some_records(rng, first, labels[first : first + 10])
        given = pack(records, p)
        for attempt in range(rng.choice([1, 1, 3])):
            got = [run(*each, given) for each in zip(operators, states, strict=True)]
            assert got[0] == got[1], (first, attempt)
        for state in states:
            state.kept = state.new
            state.now_ms += rng.choice([500, 4_000])
        shard = decode_shard(states[0].kept, record_schema(p), ShardFiles(folder))
        there = set(listed(folder)) if folder.exists() else set()
        left = {name for name, _ in shard.left}
        assert there == shard.names | set(shard.records.gone) | left
        most = max(most, len(shard.records.names))
        tables.add(bool(shard.tables))
        assert len(states[0].kept.core) < 6_000
    assert most >= 3
    assert tables == {True, False}, "large ones are files, small ones are not"
    for offset in range(200, 203):  # the second notes what is due, the third removes it
        run(operators[0], states[0], pack(some_records(rng, offset, [offset]), p))
        states[0].kept = states[0].new
        states[0].now_ms += codec.TABLES_KEPT_MS
    assert not listed(folder)


def test_the_tables_of_a_state_are_there_for_whoever_reads_it_a_while_later(tmp_path, monkeypatch):
    monkeypatch.setattr(shard_files, "FILE_BYTES_MIN", 0)
    p = plan(Rules(LinearLabels()))
    operator, state = ChannelOperator(replace(p, folder=str(tmp_path))), State()
    rng, read = random.Random(1), []
    for label in range(40):
        run(operator, state, pack(some_records(rng, label, [label]), p))
        state.kept = state.new
        read.append((state.now_ms, state.kept))
        for now_ms, row in read:
            if state.now_ms - now_ms < codec.TABLES_KEPT_MS:
                shard = decode_shard(row, record_schema(p), ShardFiles.of(operator.plan, 7))
                assert shard.state.clock_ms == now_ms
        state.now_ms += 1_000
    folder = tmp_path / "held" / "7"
    assert len(listed(folder)) <= codec.TABLES_KEPT_MS // 1_000 + 2
    with pytest.raises(StorageUnavailable, match="No such file"):
        decode_shard(read[0][1], record_schema(p), ShardFiles.of(operator.plan, 7))

    state.now_ms = 0  # the clock is set back: a shard's time stands still
    for label in range(40, 100):
        run(operator, state, pack(some_records(rng, label, [label]), p))
        state.kept = state.new
    assert codec.TABLES_KEPT_MAX <= len(listed(folder)) <= codec.TABLES_KEPT_MAX + 3
