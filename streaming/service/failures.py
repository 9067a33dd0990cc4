"""Why a query stopped, as one of our errors."""

from __future__ import annotations

import re

from streaming import errors
from streaming.errors import INPUT_LOST, InputLost, JobFailed, SequencerError

PACK = (
    "Build the archive of what executors need with `sequencer pack CONFIG`, and name it as that "
    "says (docs/cluster.md)."
)
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
"""Faults of executors that trying again does not mend, and what does."""

RAISED = re.compile(r"streaming\.errors\.(\w+): (.*)")

TRACEBACK = re.compile(
    r"(?:Return Message: |Python worker:\s+)Traceback.*?^(\w[^\n]*)$", re.MULTILINE | re.DOTALL
)
"""What the driver's own Python raised, which Spark called, or a worker's: a traceback's only line
that is not indented says it."""


def as_sequencer_error(text: str) -> SequencerError:
    """The error that a worker raised, out of Spark's report of it."""
    raised = RAISED.findall(text)
    if raised:
        name, message = raised[-1]
        kind = getattr(errors, name, SequencerError)
        if name == "StateFormatError":
            return JobFailed(message)
        return kind(message)
    for pattern, message, remedy in STAYING:
        if what := pattern.search(text):
            return JobFailed(message.format(what[1]), "Nothing was written.", remedy)
    if "OffsetOutOfRange" in text or "KAFKA_DATA_LOSS" in text or "failOnDataLoss" in text:
        return InputLost(*INPUT_LOST)
    if "CONCURRENT_STREAM_LOG_UPDATE" in text:
        return SequencerError("Another copy of this service wrote the checkpoint's log.")
    lines = [line for line in text.splitlines() if line.strip()]
    cause = next((line for line in reversed(lines) if line.startswith("Caused by:")), None)
    if raised := TRACEBACK.findall(text):
        cause = raised[-1]
    return SequencerError(f"The query stopped: {(cause or (lines or ['unknown'])[0])[:400]}.")
