"""Streams that are cut are not taken for streams that ended."""

import io

import pyarrow as pa
import pytest
from pyspark.serializers import read_int

from streaming.errors import JobFailed
from streaming.spark.stream_end import MARKER, WholeInput, reading_whole_input, until_end

ROWS = pa.RecordBatch.from_pydict({"x": pa.array([b"abc", b"", None], pa.binary())})
BEHIND = b"\xff\xff\xff\xfc"
"""What Spark writes behind the stream: END_OF_STREAM (-4)."""


def stream(*batches):
    """The bytes of a stream, and where each of its messages ends."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema) as writer:
        ends = []
        for batch in batches:
            writer.write_batch(batch)
            ends.append(sink.tell())
    return sink.getvalue().to_pybytes(), ends


def read(data):
    """As PySpark's worker does, what a sink gets; and the number behind the stream."""
    found = []

    def main(infile, _):
        found.extend(until_end(pa.ipc.open_stream(infile)))
        found.append(read_int(infile))

    reading_whole_input(main)(io.BufferedReader(io.BytesIO(data)), None)
    return found


@pytest.fixture(autouse=True)
def _no_other_input(monkeypatch):
    monkeypatch.setattr(WholeInput, "current", None)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_stream_that_was_finished_is_read_to_its_marker_and_no_further(count):
    data, _ = stream(*[ROWS] * count)
    assert data.endswith(MARKER)
    assert read(data + BEHIND) == [*[ROWS] * count, -4]


def test_a_stream_that_was_cut_anywhere_raises():
    data, ends = stream(ROWS, ROWS)
    assert [len(list(pa.ipc.open_stream(data[:end]))) for end in ends] == [1, 2], (
        "Arrow takes a stream that was cut between two messages for one that has ended"
    )
    for end in range(len(data)):
        with pytest.raises(EOFError):
            read(data[:end])


def test_bytes_that_look_like_the_marker_are_none():
    rows = pa.RecordBatch.from_pydict({"x": pa.array([MARKER * 8], pa.binary())})
    data, ends = stream(rows)
    assert data[: ends[-1]].endswith(MARKER)
    with pytest.raises(EOFError):
        read(data[: ends[-1]])


def test_who_commits_wants_a_worker_that_knows_its_input():
    data, _ = stream(ROWS)
    with pytest.raises(JobFailed, match=r"spark\.python\.daemon\.module"):
        list(until_end(pa.ipc.open_stream(data)))


def test_who_commits_wants_the_marker_itself():
    """A later Arrow might read by another way than this file."""
    data, ends = stream(ROWS)

    def main(*_):
        list(until_end(pa.ipc.open_stream(data[: ends[-1]])))

    with pytest.raises(JobFailed, match="has read all rows"):
        reading_whole_input(main)(io.BytesIO(data), None)
