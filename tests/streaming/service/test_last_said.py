"""What the service said last is what the copy said that works."""

import json

import pytest

from streaming.errors import StorageUnavailable
from streaming.service.checkpoint import HOLDER, Checkpoint
from streaming.service.last_said import farewell


@pytest.fixture
def old(tmp_path):
    """A copy on storage without locks."""
    checkpoint = Checkpoint(str(tmp_path), "p")
    checkpoint.claim()
    lock, checkpoint._lock = checkpoint._lock, None
    yield checkpoint
    lock.close()


def test_the_older_of_two_copies_says_nothing_more(old):
    assert old.last_said.note("started", "Ready.")
    claimed = old._read(HOLDER)
    old._write(HOLDER, {**claimed, "pid": claimed["pid"] + 1})
    assert old.last_said.note("failed", "Another copy works here.")
    assert old.last_said.read().text == "Ready."


def test_a_copy_whose_mark_an_older_one_removed_as_it_ended_marks_the_checkpoint_again(old):
    """The older one had seen its own mark, and the newer began before it was removed."""
    mine = old._read(HOLDER)
    old._files.remove(HOLDER)
    assert old.last_said.note("started", "Ready.")
    assert old._read(HOLDER) == mine
    assert old.last_said.read().text == "Ready."


def test_storage_that_is_away_says_so(old, monkeypatch):
    def away(*_):
        raise StorageUnavailable("away")

    monkeypatch.setattr(old.last_said._files, "write", away)
    assert not old.last_said.note("stopped", "Stopped in order.")


def test_a_farewell_asks_nobody():
    class Gone(Exception):  # noqa: N818  (as Java's errors are where the JVM is gone)
        def __str__(self):
            raise ConnectionError("the JVM is gone")

    event, said = farewell(Gone())
    assert event == "failed"
    assert "Gone" in said
    assert json.dumps(said)
