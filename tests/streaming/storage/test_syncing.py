"""What of a checkpoint's folder the disk has, and when."""

import json

import pytest

from streaming.service.checkpoint import Checkpoint
from streaming.storage import files, syncing


@pytest.fixture
def synced(monkeypatch):
    """Paths that were synced."""
    paths = []
    monkeypatch.setattr(syncing, "sync", lambda path: paths.append(str(path)))
    return paths


@pytest.fixture
def folder(tmp_path):
    """A checkpoint in which Spark has planned a batch."""
    folder = tmp_path / "var" / "p"
    (folder / "offsets").mkdir(parents=True)
    (folder / "offsets" / "0").write_text("v1")
    (folder / "metadata").write_text(json.dumps({"id": "a-query"}))
    return folder


def test_a_checkpoint_that_is_not_synced_keeps_its_querys_id(synced, folder):
    checkpoint = Checkpoint(str(folder.parent), "p", synced=False)
    checkpoint.sync_logs()
    way = [str(each) for each in folder.parents]
    assert synced[0] == f"{folder}/metadata"
    assert set(synced[1:]) == {str(folder), *way}
    checkpoint.sync_logs()
    checkpoint.sync_state()
    assert len(synced) == 2 + len(way)


def test_logs_are_synced_before_a_batch_and_the_way_to_them_once(synced, folder):
    checkpoint = Checkpoint(str(folder.parent), "p", synced=True)
    checkpoint.sync_logs()
    assert {f"{folder}/offsets/0", f"{folder}/offsets", f"{folder}/metadata"} < set(synced)
    assert set(map(str, folder.parents)) < set(synced)
    del synced[:]
    (folder / "offsets" / "1").write_text("v1")
    checkpoint.sync_logs()
    assert sorted(synced) == [f"{folder}/offsets", f"{folder}/offsets/1"]


def test_the_mark_that_closes_a_moved_checkpoint_is_always_synced(folder, monkeypatch):
    paths = []
    monkeypatch.setattr(files, "sync", lambda path: paths.append(str(path)))
    checkpoint = Checkpoint(str(folder.parent), "p", synced=False)
    checkpoint.mark_moved("elsewhere", 4)
    assert paths == [f"{folder}/moved.json.new", str(folder)]
    assert checkpoint.was_moved_to("elsewhere")


def test_the_end_of_a_move_is_on_the_disk(monkeypatch, folder):
    """Else the new checkpoint is not whole behind a power cut, and the old one may be gone."""
    paths = []
    monkeypatch.setattr(files, "sync", lambda path: paths.append(str(path)))
    checkpoint = Checkpoint(str(folder.parent), "p", synced=True)
    checkpoint.begin_move("elsewhere")
    del paths[:]
    checkpoint.end_move()
    assert paths == [str(folder)]
    assert not checkpoint.is_moved_from("elsewhere")
