"""Which snapshots of Spark's state are whole."""

import json
import shutil
from zipfile import ZipFile

import pytest

from streaming.service.checkpoint import Checkpoint
from streaming.spark import snapshots

LISTS = {
    "sstFiles": [{"localFileName": "1.sst", "dfsSstFileName": "1-a.sst", "sizeBytes": 1_243}],
    "logFiles": [{"localFileName": "2.log", "dfsLogFileName": "2-a.log", "sizeBytes": 512}],
    "numKeys": 3,
}


@pytest.fixture
def snapshot(tmp_path):
    """A whole one, as Spark makes it, in a pipeline's checkpoint."""
    folder = tmp_path / "p" / "state" / "0" / "1"
    for kind, name, size in (("SSTs", "1-a.sst", 1_243), ("logs", "2-a.log", 512)):
        (folder / kind).mkdir(parents=True)
        with_checksum(folder / kind / name, bytes(size))
    path = folder / "60_c0ffee.zip"
    with ZipFile(path, "w") as zipped:
        zipped.writestr("CURRENT", "MANIFEST-000005\n")
        zipped.writestr("metadata", "v1\n" + json.dumps(LISTS))
    with_checksum(path, path.read_bytes())
    (folder / "1_beef.changelog").write_bytes(b"changes")
    return path


def with_checksum(path, content, each=512):
    path.write_bytes(content)
    checksums = path.with_name(f".{path.name}.crc")
    sums = bytes(4 * -(-len(content) // each))
    checksums.write_bytes(b"crc\0" + each.to_bytes(4, "big") + sums)


def cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("60_c0ffee.zip", 0),
        ("60_c0ffee.zip", 40),
        ("60_c0ffee.zip", -1),
        (".60_c0ffee.zip.crc", 0),
        (".60_c0ffee.zip.crc", 8),
        ("SSTs/1-a.sst", 0),
        ("SSTs/1-a.sst", 1_242),
        ("SSTs/.1-a.sst.crc", 0),
        ("logs/2-a.log", 511),
    ],
)
def test_a_torn_one_is_removed_by_the_next_start(tmp_path, snapshot, name, size):
    assert not list(snapshots.torn(tmp_path / "p" / "state"))
    cut(snapshot.parent / name, size)
    checkpoint = Checkpoint(str(tmp_path), "p", {}, synced=True)
    for log in ("offsets", "commits"):
        (tmp_path / "p" / log).mkdir()
        (tmp_path / "p" / log / "59").write_text('v1\n{"batchTimestampMs":1}\n{}')
    assert checkpoint.mend() == ["state/0/1/60_c0ffee.zip"], "the changes of before are all there"
    assert not snapshot.exists()
    assert not snapshot.with_name(".60_c0ffee.zip.crc").exists()
    assert checkpoint.mend() == []


def test_another_size_of_hadoop_s_blocks_is_no_damage(tmp_path, snapshot):
    """`spark.hadoop.file.bytes-per-checksum`."""
    with_checksum(snapshot.parent / "SSTs" / "1-a.sst", bytes(1_243), each=4_096)
    assert not list(snapshots.torn(tmp_path / "p" / "state"))


def test_what_nothing_stands_in_for_stays(tmp_path, snapshot):
    """A power cut does not do that; what did may be mended by hand."""
    older = snapshot.with_name("50_cafe.zip")
    shutil.copy(snapshot, older)
    (snapshot.parent / "1_beef.changelog").unlink()
    cut(snapshot, 40)
    assert list(snapshots.torn(tmp_path / "p" / "state")) == [snapshot]
    cut(older, 40)
    assert not list(snapshots.torn(tmp_path / "p" / "state"))


def test_one_that_spark_removes_meanwhile_is_not_torn(snapshot):
    snapshot.unlink()
    assert snapshots._is_whole(snapshot)


def test_what_it_lists_has_to_be_there(tmp_path, snapshot):
    shutil.rmtree(snapshot.parent / "SSTs")
    assert list(snapshots.torn(tmp_path / "p" / "state")) == [snapshot]


def test_bytes_in_the_midst_count(tmp_path, snapshot):
    content = bytearray(snapshot.read_bytes())
    content[content.index(b"MANIFEST")] ^= 1
    snapshot.write_bytes(content)
    assert list(snapshots.torn(tmp_path / "p" / "state")) == [snapshot]


def test_files_without_checksums_are_whole(tmp_path, snapshot):
    """As object stores mounted as folders have them."""
    for each in snapshot.parent.rglob(".*.crc"):
        each.unlink()
    assert not list(snapshots.torn(tmp_path / "p" / "state"))


def test_without_a_state_there_is_none(tmp_path):
    assert not list(snapshots.torn(tmp_path / "state"))
