"""Spark's reports of failures, told as errors of the service."""

from unittest.mock import MagicMock

import pytest
from pyspark.errors import AnalysisException

from streaming.errors import (
    Fenced,
    GapTimeout,
    JobFailed,
    SequencerError,
    StorageUnavailable,
)
from streaming.spark import failures
from streaming.spark.failures import WRITTEN_TWICE, as_sequencer_error

REPORT = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
streaming.errors.{}

\tat org.apache.spark.api.python.BasePythonRunner
Caused by: something else
"""


def test_what_a_worker_raised_is_found_in_the_report():
    error = as_sequencer_error(REPORT.format("GapTimeout: 'plane' waits. Send it."))
    assert type(error) is GapTimeout
    assert error.message == "'plane' waits. Send it."


def test_the_last_error_of_a_chain_counts():
    text = "streaming.errors.KafkaUnavailable: a\nstreaming.errors.Fenced: nother copy"
    error = as_sequencer_error(text)
    assert (type(error), error.message) == (Fenced, "nother copy")


def test_a_state_of_another_version_stops_the_job():
    error = as_sequencer_error(REPORT.format("StateFormatError: version 9"))
    assert type(error) is JobFailed
    assert error.message == "version 9"


def test_an_error_of_an_unknown_name_is_one_of_ours_still():
    assert type(as_sequencer_error("streaming.errors.Newer: x")) is SequencerError


@pytest.mark.parametrize("said", WRITTEN_TWICE)
def test_another_copy_on_the_checkpoint(said):
    error = as_sequencer_error(f"[{said}] …")
    assert type(error) is StorageUnavailable, "the pipeline is started again, also while it starts"
    assert "Another copy" in error.message


def test_a_file_that_an_object_store_does_not_take():
    why = "software.amazon.awssdk.services.s3.model.S3Exception: Access Denied (Service: S3)"
    error = as_sequencer_error(
        f"Job aborted\nCaused by: p/offsets/7: Writing Object on p/offsets/7: {why}:AccessDenied\n  at x"
    )
    assert type(error) is StorageUnavailable
    assert error.message.startswith("The checkpoint's storage did not take p/offsets/7: ")
    assert "Access Denied" in error.message
    assert error.effect


def test_anything_else_is_told_by_its_last_cause_and_cut():
    text = "first\nCaused by: a\n  at b\nCaused by: the cause\n\n"
    assert as_sequencer_error(text).message == "The query stopped: Caused by: the cause."
    assert as_sequencer_error("only\nthis").message == "The query stopped: only."
    assert as_sequencer_error("").message == "The query stopped: unknown."
    assert len(as_sequencer_error("x" * 10_000).message) < 500


def test_what_the_drivers_own_python_raised_is_told():
    """Sources are asked by way of a gateway, whose report begins with a traceback."""
    text = (
        "py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: "
        "Traceback (most recent call last):\n"
        '  File "clientserver.py", line 644, in _call_proxy\n'
        "    return_value = getattr(self.pool[obj_id], method)(*params)\n"
        "                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "KeyError: 'p7'\n\n"
        "\tat py4j.Protocol.getReturnValue(Protocol.java:476)\n"
        "Caused by: something else\n"
    )
    assert as_sequencer_error(text).message == "The query stopped: KeyError: 'p7'."


def test_what_else_a_worker_raised_is_told():
    text = (
        "An exception was thrown from the Python worker:\n"
        "Traceback (most recent call last):\n"
        '  File "operator.py", line 7, in step\n'
        "    raise MemoryError(size)\n"
        "MemoryError: 2147483648"
    )
    assert as_sequencer_error(text).message == "The query stopped: MemoryError: 2147483648."


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Checksum error: file:/c/p/offsets/3 at 512 exp: -2 got: 7", "/c/p/offsets/3 is damaged"),
        ("Failed to read log file file:/c/p/commits/5. Incomplete log file", "/c/p/commits/5 is"),
        (
            "[CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE] Error reading streaming "
            "state file of s3a://b/p/state/0/0/7.changelog does not exist. If the stream job is",
            "s3a://b/p/state/0/0/7.changelog is",
        ),
        (
            "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error\nCaused by: java.io.EOFException",
            "state cannot be read: Caused by: java.io.EOFException.",
        ),
    ],
)
def test_a_file_of_sparks_that_is_damaged_is_named_with_a_remedy(text, named):
    error = as_sequencer_error(f"An error occurred while calling o1.collect.\n: {text}")
    assert type(error) is StorageUnavailable, "it is tried again until the file is back"
    assert named in error.message
    assert "backup" in error.remedy


@pytest.mark.parametrize("kind", ["SQL", "DataFrame"])
def test_pyspark_writes_no_stack_trace_of_what_it_raises(kind, capfd):
    """Nor of what it makes of an error of the JVM, which has a context: a place in a query."""
    context = MagicMock()
    context.contextType.return_value.name = kind
    failures.hush()
    AnalysisException("no column foo", "UNRESOLVED", {}, contexts=[context])._log_exception()
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_has_a_remedy():
    error = as_sequencer_error(
        "Job aborted.\nCaused by: java.io.IOException: No space left on device"
    )
    assert "checkpoint's disk" in error.remedy


@pytest.mark.parametrize(
    ("lacks", "remedy"),
    [("Too many open files", "ulimit -n"), ("No space left on device", "have room")],
)
def test_a_state_that_cannot_be_opened_for_want_of_something_is_not_called_damaged(lacks, remedy):
    error = as_sequencer_error(
        "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.\n"
        f"Caused by: java.nio.file.FileSystemException: /cp/p/state/0/1: {lacks}"
    )
    assert lacks in error.message
    assert remedy in error.remedy
    assert "backup" not in str(error)


BLOCKS = "blockmgr-5f5df72e-d86c-4d57-a015-7b41ac94ae4f/25"
MISSING = (
    "{}",
    "Caused by: java.nio.file.NoSuchFileException: {}",
    "Caused by: java.io.FileNotFoundException: {}/shuffle_0_0_0.data (No such file or directory)",
)


@pytest.mark.parametrize("said", MISSING)
def test_temporary_files_that_were_removed_end_the_job(said, tmp_path):
    folder = tmp_path / "with blanks" / "sequencer-run-z5s2kvxm"
    error = as_sequencer_error(said.format(folder / BLOCKS))
    assert type(error) is JobFailed
    assert error.message == f"Temporary files below {folder} were removed."
    assert "TMPDIR" in error.remedy
    (folder / BLOCKS).mkdir(parents=True)  # a block that Spark itself removed
    assert type(as_sequencer_error(said.format(folder / BLOCKS))) is SequencerError


def test_a_full_disk_of_temporary_files_passes(tmp_path):
    folder = tmp_path / "sequencer-run-z5s2kvxm" / BLOCKS
    error = as_sequencer_error(
        f"Caused by: java.nio.file.FileSystemException: {folder}: No space left on device"
    )
    assert type(error) is SequencerError
    assert "have room" in error.remedy


def test_an_exception_without_a_cause_says_what_it_is():
    said = "An error occurred while calling o7.start.\n: java.io.IOException: No\n\tat a.B(C.java)"
    assert as_sequencer_error(said).message == "The query stopped: java.io.IOException: No."
