"""The sink: one producer for each state partition, transactional where delivery is exactly-once.

The numbered steps (the same in docs/guarantees.md and in the crash tests):

1. Spark logs the batch's offsets.
2. Each state partition steps its shards.
3. The partition's producer begins a session, which fences whoever had its id, then the partition's
   progress is read; a batch that is already there is skipped; else deliveries, rejects and events
   are produced in one transaction.
4. The batch's number is sent as the progress within the transaction; the transaction commits.
5. Spark commits the state store.
6. Spark logs the batch as done.

A crash between any two repeats the batch from the old state: partitions that had committed skip it,
the others write it; the bytes are the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streaming.arrow.columns import flat, plain
from streaming.arrow.encoded import batches_of, headers_in, is_encoded, partitions_in
from streaming.arrow.histograms import LATENCY_MS, counted, together
from streaming.arrow.ipc import from_ipc
from streaming.crashes import crash_point
from streaming.disciplines.plan import BatchContext, Plan
from streaming.sink import failures
from streaming.sink.writer import Writer, make_producer, writer_for

SUMMARY = "partition int, shard int, totals string, wrote boolean, written string"
"""One row for each shard that told of itself; ``wrote``: whether its partition had anything to
write. ``written`` stands in the partition's first row: a `Written` as JSON, else nothing."""

Row = dict[str, Any]
"""A row of `streaming.arrow.output.OUTPUT`."""


@dataclass(slots=True)
class Written:
    """What writing a partition's part of a batch came to; no part of the output, so clocks may.

    ``transactions``: committed, 0 without transactions or where an earlier attempt wrote the batch
    (``found`` is 1 then). ``latency_ms``: from the deliveries' timestamps to the end of the
    transaction, as in `streaming.arrow.histograms`.
    """

    transactions: int = 0
    found: int = 0
    latency_ms: list[int] = field(default_factory=list)

    def __add__(self, other: Written) -> Written:
        return Written(
            self.transactions + other.transactions,
            self.found + other.found,
            together([self.latency_ms, other.latency_ms]),
        )


@dataclass(frozen=True, slots=True)
class Sink:
    """The function that Spark runs over a state partition's output rows."""

    plan: Plan
    context: BatchContext

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write one partition of a batch, row by row as they come; yields rows of SUMMARY."""
        rows = (row for batch in batches for row in _rows(batch))
        reports: list[tuple[int, str]] = []
        partition = _partition_id()
        make_producer(self.plan, partition)  # its imports, while the shards step
        first = _next_output(rows, reports)
        if first is None and not reports:
            return
        crash_point("2-3")
        written = Written()
        if first is not None:
            written = self.write(partition, first, rows, reports)
        yield pa.RecordBatch.from_pydict(
            {
                "partition": pa.array([partition] * len(reports), pa.int32()),
                "shard": pa.array([shard for shard, _ in reports], pa.int32()),
                "totals": [totals for _, totals in reports],
                "wrote": [first is not None] * len(reports),
                "written": [json.dumps(asdict(written)), *[""] * (len(reports) - 1)],
            }
        )

    def write(
        self,
        partition: int,
        first: Row,
        rows: Iterator[Row],
        reports: list[tuple[int, str]],
    ) -> Written:
        """Write one partition's part of the batch, unless it is there: a row and those behind it.

        Totals on the way go to ``reports``.
        """
        row: Row | None = first
        stamps: list[NDArray[np.int64]] = []
        writer = writer_for(self.plan, partition, self.context)
        if writer is None:  # an earlier attempt wrote this batch
            while row is not None:
                row = _next_output(rows, reports)
            return Written(found=1)
        with writer.batch(self.context.batch, self.context.query):
            while row is not None:
                if self.context.in_doubt and writer.forgotten and row["wrote_before"]:
                    raise failures.progress_missing(self.plan, partition, self.context.batch)
                table = from_ipc(row["rows"])
                _produce(writer, row["topic"], table, self.plan)
                if self.plan.delivers_to(row["topic"]):
                    stamps.append(_stamps(table))
                row = _next_output(rows, reports)
        return Written(
            transactions=int(writer.producer.transactional), latency_ms=_latency_ms(stamps)
        )


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows, each with its table's bytes as they lie in the batch."""
    for at in range(batch.num_rows):
        row = batch.slice(at, 1)
        yield {
            "rows": row["rows"][0].as_buffer(),
            **row.drop_columns(["rows"]).to_pylist()[0],
        }


def _next_output(rows: Iterator[Row], reports: list[tuple[int, str]]) -> Row | None:
    """The next row that has records, None where there is none; totals on the way are noted."""
    for row in rows:
        if row["totals"]:
            reports.append((row["shard"], row["totals"]))
        if row["topic"]:
            return row
    return None


def _partition_id() -> int:
    from pyspark import TaskContext  # noqa: PLC0415  (only a worker has one)

    task = TaskContext.get()
    assert task is not None  # noqa: S101  (Spark runs this in a task)
    return int(task.partitionId())


def _produce(writer: Writer, topic: str, table: pa.Table, plan: Plan) -> None:
    """Write a table (see `streaming.arrow.output`) to a topic."""
    if is_encoded(table):
        writer.put(topic, batches_of(table))
        return
    partitions = partitions_in(table, partial(writer.partitions, topic))
    writer.write(topic, table, partitions, headers_in(table, plan.headers))


def _stamps(table: pa.Table) -> NDArray[np.int64]:
    """The records' timestamps (ms); none where a topic's records have Kafka's own."""
    if is_encoded(table):
        stamps = flat(table["stamps"]).flatten()
    elif "timestamp" in table.column_names:
        stamps = plain(flat(table["timestamp"]))
    else:
        return np.zeros(0, dtype=np.int64)
    return np.array(stamps)  # a copy: the table may go


def _latency_ms(stamps: Sequence[NDArray[np.int64]]) -> list[int]:
    """How old the records of these timestamps are now; none is from the future."""
    if not stamps:
        return []
    ages_ms = round(time.time() * 1000) - np.concatenate(stamps)
    return counted(LATENCY_MS, np.maximum(ages_ms, 0))
