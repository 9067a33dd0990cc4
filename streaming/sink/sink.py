"""The sink: one producer for each state partition, transactional where delivery is exactly-once.

The numbered steps (the same in docs/guarantees.md and in the crash tests):

1. Spark logs the batch's offsets; the driver syncs them.
2. Each state partition steps its shards.
3. The partition's producer begins a session, which fences the last holder of its id; then its
   progress is read; a batch that is already there is skipped; else deliveries, rejects and events
   are produced in a transaction.
4. The batch's number is sent as the progress within the transaction; the transaction commits.
   Where that becomes too large or too old before all is produced, the progress says how far it is
   (`streaming.sink.parts`), and step 3 goes on in another transaction.
5. Spark commits the state store; the driver syncs it.
6. Spark logs the batch as done.

A crash between any two repeats the batch from the old state: partitions that had committed skip it,
or as much of it as they had; the others write it; the bytes are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pyarrow as pa

from streaming.arrow.histograms import together
from streaming.arrow.ipc import from_ipc
from streaming.arrow.large_rows import fetched_back
from streaming.crashes import crash_point
from streaming.disciplines.plan import BatchContext, Plan, batch_context
from streaming.disciplines.refused import RECORDS_READ, Found, Refusal, found
from streaming.errors import SequencerError
from streaming.sink import failures
from streaming.sink.answers import Answer, noting
from streaming.sink.parts import FewerRead, PartChanged, Parts
from streaming.sink.progress import BatchProgress
from streaming.sink.refusals import RecordsRefused
from streaming.sink.writer import make_producer, require_seen, writer_for
from streaming.spark.stream_end import until_end
from streaming.versions import require_drivers

SUMMARY = "report string"
"""A `Report` as text: one row of each partition in which a shard reported."""

OutputRow = dict[str, Any]
"""A row of `streaming.arrow.output.OUTPUT`."""


@dataclass(slots=True)
class Written:
    """The result of writing a partition's part of a batch; no part of the output, so clocks may.

    ``transactions``: committed, 0 without transactions or where an earlier attempt wrote the batch
    (``found`` is 1 then). ``latency_ms``: from the deliveries' timestamps to the end of the
    transaction, as in `streaming.arrow.histograms`. ``ends``: by partition of the output, the
    offset behind the deliveries.
    """

    transactions: int = 0
    found: int = 0
    latency_ms: list[int] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)

    def __add__(self, other: Written) -> Written:
        return Written(
            self.transactions + other.transactions,
            self.found + other.found,
            together([self.latency_ms, other.latency_ms]),
            {at: max(self.ends.get(at, 0), other.ends.get(at, 0)) for at in self.ends | other.ends},
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What the driver learns of a partition's part of a batch.

    ``wrote``: whether there was anything to write. ``totals``: of each shard that reported,
    with its number, as JSON. ``refused``: records that Kafka refused for good, in words of JSON;
    where there are any, nothing is written. ``answers``: to commands, for the log.
    """

    partition: int
    wrote: bool
    written: Written
    totals: list[tuple[int, str]]
    refused: list[Found] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def to_text(self) -> str:
        """A line for the partition, one for each shard."""
        written = asdict(self.written)
        head = json.dumps([self.partition, self.wrote, written, self.refused, self.answers])
        return "\n".join([head, *(f"{shard} {totals}" for shard, totals in self.totals)])

    @property
    def records_read(self) -> int:
        """How many records of the batch its shards got."""
        return _records_read(self.totals)

    def with_first(self, written: Written) -> Report:
        """With what the first run that was not refused wrote; who finds that has not written it."""
        return replace(self, wrote=self.wrote and not self.written.found, written=written)

    @classmethod
    def from_text(cls, text: str) -> Report:
        """The inverse of :meth:`to_text`."""
        head, *lines = text.split("\n")
        partition, wrote, written, refused, answers = json.loads(head)
        pairs = (line.partition(" ") for line in lines)
        totals = [(int(shard), counts) for shard, _, counts in pairs]
        return cls(partition, wrote, Written(**written), totals, refused, answers)


@dataclass(frozen=True, slots=True)
class Sink:
    """The function that Spark runs over a state partition's output rows."""

    plan: Plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write one partition of the batch that Spark runs; rows of SUMMARY."""
        from pyspark import TaskContext  # noqa: PLC0415  (only a worker has one)

        require_drivers()
        task = TaskContext.get()
        assert task is not None  # noqa: S101  (Spark runs this in a task)
        context = batch_context()
        require_seen(self.plan, context)
        report = self.run(context, int(task.partitionId()), until_end(batches))
        if report is not None:
            yield pa.RecordBatch.from_pydict({"report": [report.to_text()]})

    def run(
        self, context: BatchContext, partition: int, batches: Iterable[pa.RecordBatch]
    ) -> Report | None:
        """Write one partition of a batch, row by row as they come; None if there was no shard."""
        answers: list[Answer] = []
        rows = _whole_shards(row for batch in batches for row in _rows(batch))
        rows = noting(rows, self.plan.events, answers)
        totals: list[tuple[int, str]] = []
        make_producer(self.plan, partition)  # its imports, while the shards step
        first = _next_output(rows, totals)
        if first is None and context.in_doubt and self.plan.delivery == "exactly-once":
            self._require_unwritten(context, partition, totals)
        if first is None and not totals:
            return None
        crash_point("2-3")
        written = Written()
        if first is not None:
            try:
                written = self.write(context, partition, first, rows, totals)
            except RecordsRefused as error:
                while _next_output(rows, totals) is not None:
                    pass
                findings = self._found(error.refusals, context)
                return Report(
                    partition, wrote=False, written=written, totals=totals, refused=findings
                )
        return Report(partition, first is not None, written, totals, answers=answers)

    def _found(self, refusals: list[Refusal], context: BatchContext) -> list[Found]:
        """Return refused records as findings; KafkaUnavailable where one cannot be rejected."""
        plan = self.plan.under(context.decisions)
        findings = [found(each, plan) for each in refusals]
        beyond = [each for each, finding in zip(refusals, findings, strict=True) if not finding]
        if beyond:
            raise failures.refused(beyond, self.plan)
        return [each for each in findings if each]

    def write(
        self,
        context: BatchContext,
        partition: int,
        first: OutputRow,
        rows: Iterator[OutputRow],
        totals: list[tuple[int, str]],
    ) -> Written:
        """Write one partition's part of the batch, unless it is there: a row and those behind it.

        What shards tell on the way goes to ``totals``.
        """
        row: OutputRow | None = first
        writer = writer_for(self.plan, partition, context)
        if isinstance(writer, BatchProgress):  # an earlier attempt wrote this batch
            while row is not None:
                row = _next_output(rows, totals)
            self._require_same_input(writer, partition, totals)
            return Written(found=1)
        parts = Parts(writer, context)
        try:
            with writer.batch(context):
                while row is not None:
                    would_be_lost = row["wrote_before"] or context.old or writer.deleted
                    if context.in_doubt and writer.forgotten and would_be_lost:
                        writer.confirm_progress()
                        missing = failures.progress_missing
                        why = failures.overwritten if writer.overwritten else missing
                        raise why(self.plan, partition, context.batch)
                    got = row.get("read", 0)
                    parts.write(row["shard"], row["topic"], from_ipc(row["rows"]), got)
                    row = _next_output(rows, totals)
                parts.finish()
                writer.read = _records_read(totals)
                # Refused records are named by what a run made of the batch: it has to be the same.
                before = context.decisions.get(RECORDS_READ, {}).get(str(partition))
                self._require_as_many(context.batch, partition, before, writer.read)
        except FewerRead as fewer:
            writer.confirm_progress()
            counts = fewer.before, fewer.read, "shards of "
            raise failures.input_changed(self.plan, partition, context.batch, *counts) from fewer
        except PartChanged as changed:
            writer.confirm_progress()
            raise failures.part_changed(self.plan, partition, context.batch) from changed
        parts.committed()
        return Written(parts.transactions, 0, parts.latency_ms, writer.ends())

    def _require_unwritten(
        self, context: BatchContext, partition: int, totals: list[tuple[int, str]]
    ) -> None:
        """Look whether a repeated batch that has nothing to write here had something before."""
        found = writer_for(self.plan, partition, context)
        if isinstance(found, BatchProgress):
            self._require_same_input(found, partition, totals)
            return
        found.confirm_progress()
        if found.part is not None and found.part.total:
            raise failures.part_changed(self.plan, partition, context.batch)

    def _require_same_input(
        self, found: BatchProgress, partition: int, totals: list[tuple[int, str]]
    ) -> None:
        self._require_as_many(found.batch, partition, found.read, _records_read(totals))

    def _require_as_many(self, batch: int, partition: int, before: int | None, read: int) -> None:
        """Raise InputChanged where a batch was made from more records ``before`` than now."""
        if before is not None and before != read:
            raise failures.input_changed(self.plan, partition, batch, before, read)


def _records_read(totals: list[tuple[int, str]]) -> int:
    """How many records of the batch these shards got."""
    return sum(json.loads(counts).get("read", 0) for _, counts in totals)


def _rows(batch: pa.RecordBatch) -> Iterator[OutputRow]:
    """The rows, each with its table's bytes."""
    for at in range(batch.num_rows):
        row = batch.slice(at, 1)
        yield {
            "rows": fetched_back(row["rows"][0].as_buffer(), last_use=True),
            **row.drop_columns(["rows"]).to_pylist()[0],
        }


def _whole_shards(rows: Iterable[OutputRow]) -> Iterator[OutputRow]:
    """Yield the rows; raise SequencerError where a shard's last one, with its totals, is missing.

    `until_end` says so, too; this does not rely on what Spark, Arrow and the worker do.
    """
    unfinished: int | None = None
    for row in rows:
        if unfinished not in (None, row["shard"]):
            break
        yield row
        unfinished = None if row["totals"] else row["shard"]
    if unfinished is not None:
        raise SequencerError(
            f"Shard {unfinished} gave rows of this batch, but not its last one.",
            "The batch was not finished, and will be repeated.",
            "If it happens again, report it: nothing is lost, but the pipeline stands still.",
        )


def _next_output(rows: Iterator[OutputRow], totals: list[tuple[int, str]]) -> OutputRow | None:
    """The next row with records, None where there is none; notes what shards tell on the way."""
    for row in rows:
        if row["totals"]:
            totals.append((row["shard"], row["totals"]))
        if row["topic"]:
            return row
    return None
