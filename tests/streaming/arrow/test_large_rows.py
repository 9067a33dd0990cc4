"""Rows that stay in files between two stages are the same behind it, or an error says why not."""

import os
import resource
import shutil

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.arrow.ipc import BODY_HEAD, to_body, to_ipc
from streaming.arrow.large_rows import LARGE_BYTES, REFERENCE, clear, found, left, left_of
from streaming.arrow.schemas import RECORD
from streaming.errors import SequencerError, StorageUnavailable

LARGE = bytes(range(256)) * (LARGE_BYTES // 256)
KINDS = [LARGE, LARGE[::-1], LARGE[1:], b"", b"x", b"\0" * 20]


def files(folder):
    return sorted(folder.iterdir()) if folder.exists() else []


@given(st.lists(st.integers(0, len(KINDS) - 1), max_size=6), st.booleans())
def test_what_is_found_is_what_was_left(tmp_path_factory, kinds, last):
    rows = [KINDS[kind] for kind in kinds]
    folder = tmp_path_factory.mktemp("rows") / "p"
    given_rows = left(rows, str(folder))
    assert [bytes(found(row, last=last)) for row in given_rows] == rows
    large = sum(map(len, rows)) >= LARGE_BYTES
    assert large or given_rows == rows
    if last:
        assert not files(folder)
    elif large:
        (file,) = files(folder)
        assert file.stat().st_size == sum(map(len, {*rows})), "equal rows are written once"
    clear(str(folder))
    assert not folder.exists()


def test_without_a_folder_rows_pass_themselves():
    assert left([LARGE], "") == [LARGE]
    clear("")


def test_what_a_reference_begins_with_no_pack_and_no_table_does(tmp_path):
    table = pa.table({"a": ["x"] * 10})
    for row in (to_ipc(table), to_body(batch())):
        assert BODY_HEAD.unpack_from(row)[1] != REFERENCE
        assert found(row) is row
    (reference,) = left([LARGE], str(tmp_path))
    assert BODY_HEAD.unpack_from(reference)[1] == REFERENCE
    assert found(b"") == b""


def batch():
    return pa.RecordBatch.from_pylist([], schema=RECORD)


def test_a_batch_keeps_its_other_columns(tmp_path):
    columns = {"shard": pa.array([3, 5], pa.int32()), "rows": pa.array([LARGE, b"few"])}
    given_batch = left_of(pa.RecordBatch.from_pydict(columns), str(tmp_path))
    assert given_batch["shard"].to_pylist() == [3, 5]
    assert [bytes(found(row)) for row in given_batch["rows"].to_pylist()] == [LARGE, b"few"]
    assert given_batch.nbytes < 1_000


@pytest.mark.parametrize("at", [0, 4, 8, 20, 30, -1])
def test_a_damaged_reference_is_no_row(tmp_path, at):
    (reference,) = left([LARGE], str(tmp_path))
    damaged = bytearray(reference)
    damaged[at] ^= 1
    if at == 4:  # no reference any more: what reads rows finds it damaged
        assert found(bytes(damaged)) == bytes(damaged)
        return
    with pytest.raises(SequencerError, match="damaged"):
        found(bytes(damaged))


def test_a_damaged_file_is_no_row(tmp_path):
    (reference,) = left([LARGE], str(tmp_path))
    (file,) = files(tmp_path)
    for damage in (LARGE[:-1], LARGE[:-1] + b"x", b""):
        file.write_bytes(damage)
        with pytest.raises(SequencerError, match=r"damaged|cannot be read"):
            found(reference)
    file.write_bytes(LARGE)
    assert bytes(found(reference)) == LARGE


def test_a_file_that_is_gone_is_said(tmp_path):
    (reference,) = left([LARGE], str(tmp_path))
    clear(str(tmp_path))
    with pytest.raises(StorageUnavailable, match="No such file") as error:
        found(reference)
    assert "tried again" in str(error.value)


def test_a_folder_that_the_system_removed_is_made_again(tmp_path):
    folder = tmp_path / "rows" / "p"
    left([LARGE], str(folder))
    shutil.rmtree(folder.parent)
    (reference,) = left([LARGE], str(folder))
    assert bytes(found(reference)) == LARGE


def test_what_does_not_fit_leaves_nothing(tmp_path):
    """A file may have half of what is written; then the system says that it is too large."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGE_BYTES // 2, limits[1]))
    try:
        with pytest.raises(StorageUnavailable, match="could not be written") as error:
            left([LARGE, b"more"], str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.strerror(27) in str(error.value)
    assert not files(tmp_path)
