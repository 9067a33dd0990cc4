"""Rows that stay in files between two stages are the same behind it, or an error says why not."""

import os
import resource
import shutil

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.arrow.ipc import BODY_HEAD, from_body, to_body, to_ipc
from streaming.arrow.large_rows import LARGE_BYTES, REFERENCE, clear, fetched_back, set_aside
from streaming.arrow.schemas import RECORD
from streaming.disciplines.broadcast import pack_for_all
from streaming.errors import SequencerError, StorageUnavailable

LARGE = bytes(range(256)) * (LARGE_BYTES // 256)
KINDS = [LARGE, LARGE[::-1], LARGE[1:], b"", b"x", b"\0" * 20]


def files(folder):
    return sorted(folder.iterdir()) if folder.exists() else []


def aside(folder, *rows):
    return set_aside([(row,) for row in rows], str(folder))


@given(st.lists(st.integers(0, len(KINDS) - 1), max_size=6), st.booleans(), st.booleans())
def test_what_is_fetched_back_is_what_was_set_aside(tmp_path_factory, kinds, last_use, halves):
    folder = tmp_path_factory.mktemp("rows") / "p"
    whole = [(row[: len(row) // 2], row[len(row) // 2 :]) if halves else (row,) for row in KINDS]
    rows = [KINDS[kind] for kind in kinds]
    references = set_aside([whole[kind] for kind in kinds], str(folder))
    if sum(map(len, rows)) < LARGE_BYTES:
        assert references is None
        return
    assert sum(map(len, references)) < 2_000
    (file,) = files(folder)
    assert file.stat().st_size == sum(map(len, {*rows})), "the same row is written once"
    assert [bytes(fetched_back(row, last_use=last_use)) for row in references] == rows
    assert len(files(folder)) == (not last_use)
    clear(str(folder))
    assert not folder.exists()


def test_without_a_folder_rows_go_themselves():
    assert aside("", LARGE) is None
    assert fetched_back(LARGE) is LARGE
    clear("")


def test_what_a_reference_begins_with_no_pack_and_no_table_does(tmp_path):
    table = pa.table({"a": ["x"] * 10})
    for row in (to_ipc(table), to_body(batch())):
        assert BODY_HEAD.unpack_from(row)[1] != REFERENCE
        assert fetched_back(row) is row
    (reference,) = aside(tmp_path / "p", LARGE)
    assert BODY_HEAD.unpack_from(reference)[1] == REFERENCE
    assert fetched_back(b"") == b""


def batch():
    return pa.RecordBatch.from_pylist([], schema=RECORD)


def test_every_shard_gets_the_same_packs_of_one_file(tmp_path):
    """Those for all shards are written once: 300 times 8 MiB would be more than a column may have."""
    table = pa.Table.from_pylist([{"value": LARGE, "topic": 0}] * 3, schema=RECORD)
    keys = [*range(300)]
    rows = pack_for_all(table, keys, large_rows=str(tmp_path / "p"))
    assert rows["shard"].to_pylist() == keys
    (file,) = files(tmp_path / "p")
    assert 3 * len(LARGE) < file.stat().st_size < 4 * len(LARGE)
    (pack,) = {bytes(fetched_back(row)) for row in rows["rows"].to_pylist()}
    assert from_body(pack, RECORD).to_pylist() == table.to_pylist()


@pytest.mark.parametrize("at", [0, 4, 8, 20, 30, -1])
def test_a_damaged_reference_is_no_row(tmp_path, at):
    (reference,) = aside(tmp_path / "p", LARGE)
    damaged = bytearray(reference)
    damaged[at] ^= 1
    if at == 4:  # no reference any more: what reads rows finds it damaged
        assert fetched_back(bytes(damaged)) == bytes(damaged)
        return
    with pytest.raises(SequencerError, match="damaged"):
        fetched_back(bytes(damaged))


def test_a_damaged_file_is_no_row(tmp_path):
    (reference,) = aside(tmp_path / "p", LARGE)
    (file,) = files(tmp_path / "p")
    for damage in (LARGE[:-1], LARGE[:-1] + b"x", b""):
        file.write_bytes(damage)
        with pytest.raises(SequencerError, match=r"damaged|cannot be read"):
            fetched_back(reference)
    file.write_bytes(LARGE)
    assert bytes(fetched_back(reference)) == LARGE


def test_a_file_that_is_gone_is_said(tmp_path):
    (reference,) = aside(tmp_path / "p", LARGE)
    clear(str(tmp_path / "p"))
    with pytest.raises(StorageUnavailable, match="No such file") as error:
        fetched_back(reference)
    assert "tried again" in str(error.value)


def test_folders_that_the_system_removed_are_made_again_but_not_a_service_s_own(tmp_path):
    folder = tmp_path / "service" / "rows" / "p"
    with pytest.raises(StorageUnavailable, match="could not be written"):
        aside(folder, LARGE)  # the service has ended; a worker of its goes on
    assert not [*tmp_path.iterdir()]
    folder.parent.mkdir(parents=True)
    aside(folder, LARGE)
    shutil.rmtree(folder.parent)
    (reference,) = aside(folder, LARGE)
    assert bytes(fetched_back(reference)) == LARGE


def test_what_does_not_fit_leaves_nothing(tmp_path):
    """A file may have half of what is written; then the system says that it is too large."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE_BYTES // 2, limits[1]))
    try:
        with pytest.raises(StorageUnavailable, match="could not be written") as error:
            aside(tmp_path / "p", LARGE, b"more")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.strerror(27) in str(error.value)
    assert not files(tmp_path / "p")
