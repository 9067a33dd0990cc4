"""The folder of a running service: gone with it, or with the next start."""

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from streaming.errors import ConfigError
from streaming.spark.scratch import LARGE_ROWS, LOCK, PREFIX, SHORT_MAX, Scratch

SECONDS_MAX = 60
BEGIN = """
import sys
from pathlib import Path
from streaming.spark.scratch import Scratch
scratch = Scratch(Path(sys.argv[1]))
(scratch.folder / "large").write_bytes(b"x")
"""
WAIT = "print(scratch.folder, flush=True); sys.stdin.read()"
LEND = """
import subprocess
child = subprocess.Popen(["cat"], pass_fds=[scratch.lock])
"""


def begun(folder, code):
    """A process with such a folder, and that folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    return process, Path(process.stdout.readline().decode().strip())


def end(process):
    process.kill()
    process.stdin.close()
    process.stdout.close()
    process.wait(SECONDS_MAX)


def test_it_is_gone_with_its_end(tmp_path):
    scratch = Scratch(tmp_path)
    (scratch.folder / "deep").mkdir()
    (scratch.folder / "deep" / "file").write_bytes(b"x")
    assert scratch.folder.stat().st_mode & 0o777 == 0o700
    scratch.close()
    assert not any(tmp_path.iterdir())


def test_a_killed_ones_goes_with_the_next_start_and_a_living_ones_does_not(tmp_path):
    process, folder = begun(tmp_path, BEGIN + WAIT)
    try:
        Scratch(tmp_path).close()
        assert (folder / "large").exists()
    finally:
        end(process)
    assert (folder / "large").exists()
    Scratch(tmp_path).close()
    assert not any(tmp_path.iterdir())


def test_it_stays_as_long_as_a_process_has_its_lock(tmp_path):
    process, folder = begun(tmp_path, BEGIN + LEND + WAIT)
    process.kill()  # its child still reads what was its standard input
    process.wait(SECONDS_MAX)
    try:
        Scratch(tmp_path).close()
        assert (folder / "large").exists()
    finally:
        end(process)
    for _ in range(1_000):
        Scratch(tmp_path).close()
        if not folder.exists():
            break
    assert not any(tmp_path.iterdir())


def test_what_is_not_ours_or_not_begun_stays(tmp_path):
    (tmp_path / f"{PREFIX}young").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / LOCK).touch()
    (tmp_path / f"{PREFIX}file").touch()
    Scratch(tmp_path).close()
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "other",
        f"{PREFIX}file",
        f"{PREFIX}young",
    ]


@pytest.mark.parametrize("name", ["x" * SHORT_MAX, 'a"b'])
def test_a_place_that_is_too_long_or_java_cannot_be_told_is_not_taken(name, tmp_path, monkeypatch):
    (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    scratch = Scratch()
    assert scratch.folder.is_dir()
    assert scratch.folder.parent != tmp_path / name
    scratch.close()
    assert not any((tmp_path / name).iterdir())


def test_a_place_that_cannot_be_written_to_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be written to .*/file: Not a directory"):
        Scratch(file_in(tmp_path))


def file_in(folder):
    (folder / "file").write_text("")
    return folder / "file"


def test_large_rows_are_where_temporary_files_are_wanted_whatever_sockets_need(
    tmp_path, monkeypatch
):
    wanted = tmp_path / ("far" * 20)
    wanted.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(wanted))
    scratch = Scratch()
    assert len(str(scratch.folder.parent)) <= SHORT_MAX
    folder = Path(scratch.for_large_rows[LARGE_ROWS])
    assert folder.parent.parent == wanted
    scratch.close()
    assert not [*wanted.iterdir()]
    assert not scratch.folder.exists()


def test_systemd_leaves_the_folder_of_a_service_alone(tmp_path):
    """Its tmpfiles pass over folders that somebody holds a lock on."""
    scratch = Scratch(tmp_path)
    other = os.open(scratch.folder, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)
    scratch.close()
