"""A backup of a checkpoint whose files change meanwhile, without Spark."""

import itertools
import os
import shutil
from pathlib import Path

import pytest

from streaming.errors import ConfigError, JobFailed, StorageUnavailable
from streaming.service import backup
from streaming.service.backup import back_up
from streaming.service.checkpoint import Checkpoint, Identity
from tests.service_helpers import called, write_config

LOG = 'v1\n{"batchTimestampMs":1}\n{"in":{"0":1}}'


class Folder:
    """A checkpoint as Spark and the service write it; the state after batch N names file N."""

    def __init__(self, root):
        self.checkpoint = Checkpoint(str(root), "p")
        self.folder = root / "p"
        self.checkpoint.write_identity(Identity("channel", 2, 2, ["in"], {}))
        self.put("metadata", '{"id":"q"}')
        self.put("lock", "1")
        self.put("state/0/_metadata/schema", "s")
        for batch in range(3):
            self.plan(batch)
            self.do(batch)

    def put(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(text)
        new.rename(path)

    def plan(self, batch):
        self.put(f"offsets/{batch}", LOG)
        if batch >= 2:
            (self.folder / "held" / "0" / f"{batch - 2:x}-00000000").unlink()

    def do(self, batch):
        self.put(f"held/0/{batch:x}-00000000", f"{batch}")
        self.put(f"state/0/0/{batch + 1}.changelog", "named")
        self.checkpoint.write_status({"batch": batch})
        self.checkpoint.write_waiting({0: str(batch)})
        self.checkpoint.write_decisions({"standing": [[batch, {}]]})
        self.put(f"commits/{batch}", "v1\n{}")


def names(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def is_whole(to):
    """Whether the state after its last batch finds what it names; that batch."""
    kept = Checkpoint(str(to), "p")
    done = kept.done()
    assert kept.planned() - done in (0, 1)
    assert (to / "p" / "held" / "0" / f"{done:x}-00000000").read_text() == str(done)
    versions = [int(path.stem) for path in (to / "p" / "state" / "0" / "0").iterdir()]
    assert max(versions) == done + 1, "later versions are of a history that may go on otherwise"
    assert kept.status()["batch"] <= kept.planned()
    return done


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "checkpoints")


def test_it_is_what_there_was_after_the_last_batch(folder, tmp_path):
    folder.plan(3)
    folder.put("state/0/0/5.zip", "of the batch that runs")
    to = tmp_path / "a" / "backup"
    back_up([folder.checkpoint], to)
    assert is_whole(to) == 2
    assert Checkpoint(str(to), "p").planned() == 3, "the batch in doubt, as after a crash"
    left = names(folder.folder) - {"lock", "state/0/0/5.zip"}
    assert names(to / "p") == left
    there = folder.folder / "held" / "0" / "2-00000000"
    assert (to / "p" / "held" / "0" / "2-00000000").samefile(there), "a link, not a copy"
    assert not list((tmp_path / "checkpoints").glob(".*"))


@pytest.mark.parametrize("after", range(16))
def test_batches_that_run_meanwhile_leave_it_whole(after, folder, tmp_path, monkeypatch):
    """Two of them, behind any of the files."""
    linked = 0
    usual = os.link

    def link(source, target):
        nonlocal linked
        usual(source, target)
        linked += 1
        if linked == after:
            for batch in (3, 4):
                folder.plan(batch)
                folder.do(batch)

    monkeypatch.setattr(os, "link", link)
    back_up([folder.checkpoint], tmp_path / "backup")
    assert is_whole(tmp_path / "backup") in (2, 4)


def test_a_service_that_is_quicker_is_said(folder, tmp_path, monkeypatch):
    usual, batches = os.link, itertools.count(3)

    def link(source, target):
        usual(source, target)
        if Path(source).name == "status.json":
            for batch in itertools.islice(batches, 2):
                folder.plan(batch)
                folder.do(batch)

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(backup, "PAUSE_SECONDS", 0)
    with pytest.raises(JobFailed, match="two batches ended"):
        back_up([folder.checkpoint], tmp_path / "backup")
    assert not (tmp_path / "backup").exists()
    assert not list((tmp_path / "checkpoints").glob(".*"))


def test_where_there_are_no_links_it_copies(folder, tmp_path, monkeypatch):
    def link(*_):
        raise OSError(1, "not permitted")

    monkeypatch.setattr(os, "link", link)
    back_up([folder.checkpoint], tmp_path / "backup")
    assert is_whole(tmp_path / "backup") == 2


def test_another_disk_gets_a_copy(folder, tmp_path, monkeypatch):
    real = Path.stat

    def stat(path, **how):
        found = real(path, **how)
        if path == tmp_path / "other":
            return os.stat_result((*found[:2], -1, *found[3:]))
        return found

    (tmp_path / "other" / "backup").mkdir(parents=True)
    monkeypatch.setattr(Path, "stat", stat)
    back_up([folder.checkpoint], tmp_path / "other" / "backup")
    assert is_whole(tmp_path / "other" / "backup") == 2
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["backup"]


def test_a_copy_for_which_there_is_no_room_says_so(folder, tmp_path, monkeypatch):
    def copytree(source, target):
        raise shutil.Error([(str(source), str(target), "[Errno 28] No space left on device")])

    monkeypatch.setattr(backup, "_in_place", copytree)
    with pytest.raises(StorageUnavailable, match=r"backup: \[Errno 28\] No space left on device\."):
        back_up([folder.checkpoint], tmp_path / "backup")


def test_a_name_that_is_too_long_is_refused(folder, tmp_path):
    with pytest.raises(ConfigError, match="cannot be a backup: File name too long"):
        back_up([folder.checkpoint], tmp_path / ("a" * 300))


def test_a_backup_in_the_checkpoint_itself_is_refused(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder.folder)
    before = names(folder.folder)
    for to in (folder.folder / "a" / "b", tmp_path / "link" / "c"):
        with pytest.raises(ConfigError, match="is in the checkpoint"):
            back_up([folder.checkpoint], to)
    assert names(folder.folder) == before


def test_a_link_to_an_empty_folder_leads_to_the_backup(folder, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    back_up([folder.checkpoint], tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert is_whole(tmp_path / "disk") == 2


def test_what_cannot_work_is_refused_and_changes_nothing(folder, tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("")
    for to in (tmp_path / "used", tmp_path / "used" / "file"):
        with pytest.raises(ConfigError, match="is there already"):
            back_up([folder.checkpoint], to)
    fresh = Checkpoint(str(tmp_path / "fresh"), "p")
    with pytest.raises(ConfigError, match="no batch"):
        back_up([fresh], tmp_path / "backup")
    folder.checkpoint.mark_moved("elsewhere", 4)
    with pytest.raises(ConfigError, match="was moved"):
        back_up([folder.checkpoint], tmp_path / "backup")
    config = write_config(tmp_path, "nowhere:1", {"p": {}}, checkpoint="hdfs://nowhere:1/c")
    code, _, err = called("backup", config, tmp_path / "backup")
    assert code in (1, 2)
    assert "hdfs://" in err
    assert not (tmp_path / "backup").exists()


def test_state_of_another_history_is_removed(folder):
    for name in ("4.zip", "5.changelog", "3_abc.changelog", "SSTs/000009-x.sst"):
        folder.put(f"state/0/0/{name}", "")
    folder.checkpoint.forget_later_state()
    left = {path.name for path in (folder.folder / "state").rglob("*") if path.is_file()}
    assert left == {
        "schema", "1.changelog", "2.changelog", "3.changelog", "3_abc.changelog", "000009-x.sst",
    }  # fmt: skip


def test_what_killed_backups_left_goes_with_the_next_one(folder, tmp_path, monkeypatch):
    """Their links kept what the service removes; what only looks like them is somebody's own."""
    elsewhere = tmp_path / "elsewhere"
    left = [
        each / f".backup-{'0af' * 10}{n:02}"
        for n, each in enumerate([folder.folder.parent, elsewhere])
    ]
    own = elsewhere / ".backup-of-mine"
    for each in (*left, own):
        (each / "p").mkdir(parents=True)
    link = backup._link

    def while_another_begins(source, target):
        monkeypatch.setattr(backup, "_link", link)
        back_up([folder.checkpoint], elsewhere / "meanwhile")
        assert target.parent.is_dir(), "it was taken for one that was killed"
        link(source, target)

    monkeypatch.setattr(backup, "_link", while_another_begins)
    back_up([folder.checkpoint], elsewhere / "to")
    assert [each for each in left if each.exists()] == []
    assert {each.name for each in elsewhere.iterdir()} == {own.name, "meanwhile", "to"}
    assert {each.name for each in folder.folder.parent.iterdir()} == {"p"}
