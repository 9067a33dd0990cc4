"""Why a query stopped, as one of our errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from streaming import errors
from streaming.errors import JobFailed, SequencerError, StorageUnavailable
from streaming.versions import PACK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAYING = (
    (
        re.compile(r"No module named '?([\w.]+)'?"),
        "Python on executors has no module {}.",
        PACK,
    ),
    (
        re.compile(r'Cannot run program "([^"]+)"'),
        "Executors have no Python at {}.",
        'Set [spark] "spark.pyspark.python" to its path there.',
    ),
    (
        re.compile(r"(?:PYTHON_VERSION_MISMATCH\]|different version in worker:?) *([^\n]{0,120})"),
        "Python on executors is of another version than the driver's: {}",
        'Set [spark] "spark.pyspark.python" to the same version there, or run the driver with it.',
    ),
)
"""Faults of executors that a retry does not mend, and their remedies."""

RAISED = re.compile(r"streaming\.errors\.(\w+): (.*)")

REPEATED = "The batch was not finished, and will be repeated."
RESTORE = (
    "See that the checkpoint's storage answers, and restore what is damaged from a backup of the "
    "checkpoint. Without one, start with a new checkpoint folder (docs/backup.md)."
)
LACKING = {
    "No space left on device": (
        "See that the checkpoint's disk and that of temporary files (TMPDIR) have room."
    ),
    "Too many open files": "Let the service open more files (ulimit -n, LimitNOFILE of systemd).",
}
"""What a process lacks, in the system's words, and the remedy: no file is damaged then."""
START_AGAIN = (
    "Start again: Spark cannot go on without them. Have what cleans the folder for temporary files "
    "pass over sequencer-run-*, or set TMPDIR to a folder that nothing cleans."
)
LET_IN = "See that it answers, has room, and lets the service write ([spark] spark.hadoop.…)."

DAMAGED = re.compile(
    r"(?:Checksum error: |Failed to read log file |streaming state file of )(?:file:)?(\S+?)"
    r"(?:\. Incomplete| at \d| does not exist)"
)
"""Spark's messages about a file of its logs or its state."""

WRITTEN_TWICE = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "Multiple streaming queries are concurrently using",
)
"""Spark's messages where a file of its logs, or the query's name, is there already."""

UNWRITTEN = re.compile(r"Writing Object on (\S+): (.*)")
"""S3's client about an object that the store did not take."""

SCRATCH = re.compile(r"(/[^\n:]*/sequencer-run-\w+)/blockmgr-[\w-]+/[0-9a-f]{2}\b")
"""A folder of Spark's blocks among the service's temporary files (`streaming.spark.scratch`)."""

TRACEBACK = re.compile(
    r"(?:Return Message: |Python worker:\s+)Traceback.*?^(\w[^\n]*)$", re.MULTILINE | re.DOTALL
)
"""The error in a traceback of the driver's or a worker's Python: its only line without indent."""


LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""PySpark's loggers, which write a stack trace of each raised error to stderr, as JSON."""


def hush() -> None:
    """Keep PySpark from logging the errors that it raises."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415  (a second to import)

    for name in LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def stop(session: SparkSession) -> None:
    """End a session, without a log of the NullPointerExceptions that its threads then raise."""
    session.sparkContext.setLogLevel("OFF")
    session.stop()


def as_sequencer_error(raised: object) -> SequencerError:
    """Return an error of the driver, a worker or Spark as a SequencerError."""
    if isinstance(raised, SequencerError):
        return raised
    text = str(raised)
    if found := RAISED.findall(text):
        name, message = found[-1]
        kind = getattr(errors, name, SequencerError)
        if name == "StateFormatError":
            return JobFailed(message)
        return kind(message)
    for pattern, message, remedy in STAYING:
        if what := pattern.search(text):
            return JobFailed(message.format(what[1]), "Nothing was written.", remedy)
    return _spark_error(text)


@contextmanager
def errors_of_spark() -> Iterator[None]:
    """Raise Spark's errors as SequencerErrors; those of a JVM that has ended stay (`jvm.Jvm`)."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415  (a second to import)
    from pyspark.errors import PySparkException  # noqa: PLC0415

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise as_sequencer_error(error) from error


def _spark_error(text: str) -> SequencerError:
    """Return an error of Spark itself, or of Python code that is not ours, as a SequencerError."""
    if any(words in text for words in WRITTEN_TWICE):
        what = "Another copy of this service wrote the checkpoint's log."
        return StorageUnavailable(what, REPEATED)
    if file := DAMAGED.search(text):
        return StorageUnavailable(f"{file[1]} is damaged or missing.", REPEATED, RESTORE)
    if refused := UNWRITTEN.search(text):
        what = f"The checkpoint's storage did not take {refused[1]}: {refused[2][:300]}."
        return StorageUnavailable(what, REPEATED, LET_IN)
    cause = cause_in(text)
    lacking = [(REPEATED, remedy) for words, remedy in LACKING.items() if words in cause]
    if (blocks := SCRATCH.search(cause)) and not lacking and not Path(blocks[0]).exists():
        return JobFailed(f"Temporary files below {blocks[1]} were removed.", REPEATED, START_AGAIN)
    if "CANNOT_LOAD_STATE_STORE" in text and not lacking:
        what = f"A file of the checkpoint's state cannot be read: {cause}."
        return StorageUnavailable(what, REPEATED, RESTORE)
    return SequencerError(f"The query stopped: {cause}.", *(lacking[0] if lacking else ()))


def cause_in(text: str) -> str:
    """Return the line of an error of Spark's, with or without its stack trace, that says why."""
    lines = [line for line in text.splitlines() if line.strip()] or ["unknown"]
    causes = [line for line in lines if line.startswith("Caused by:")]
    # "An error occurred while calling o7.start." stands above an exception without a cause.
    raised = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return (TRACEBACK.findall(text) or causes or raised or lines[:1])[-1][:400]
