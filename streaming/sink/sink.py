"""The sink: one producer for each state partition, transactional where delivery is exactly-once.

The numbered steps (the same in docs/guarantees.md and in the crash tests):

1. Spark logs the batch's offsets.
2. Each state partition steps its shards.
3. The partition's producer begins: `init_transactions` fences whoever had its id, then the
   partition's progress is read; a batch that is already there is skipped; else deliveries, rejects
   and events are produced in one transaction.
4. The batch's number is sent as the progress within the transaction; the transaction commits.
5. Spark commits the state store.
6. Spark logs the batch as done.

A crash between any two repeats the batch from the old state: partitions that had committed skip it,
the others write it; the bytes are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise, repeat
from typing import Any

import pyarrow as pa

from streaming.arrow.columns import flat
from streaming.arrow.ipc import from_ipc
from streaming.arrow.output import HEADER, RECORD_COLUMNS
from streaming.arrow.partitioner import partitions_of
from streaming.crashes import crash_point
from streaming.disciplines.plan import BatchContext, Plan
from streaming.sink.writer import Writer, writer_for

SUMMARY = "partition int, shard int, totals string, wrote boolean"


@dataclass(frozen=True, slots=True)
class Sink:
    """The function that Spark runs over a state partition's output rows."""

    plan: Plan
    context: BatchContext

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write one partition of a batch; yields rows of SUMMARY."""
        rows = [row for batch in batches for row in batch.to_pylist()]
        if not rows:
            return
        partition = _partition_id()
        outputs = [row for row in rows if row["topic"]]
        crash_point("2-3")
        if outputs:
            self.write(partition, outputs)
        told = [row for row in rows if row["totals"]]
        yield pa.RecordBatch.from_pydict(
            {
                "partition": pa.array([partition] * len(told), pa.int32()),
                "shard": pa.array([row["shard"] for row in told], pa.int32()),
                "totals": [row["totals"] for row in told],
                "wrote": [bool(outputs)] * len(told),
            }
        )

    def write(self, partition: int, outputs: list[dict[str, Any]]) -> None:
        """Write rows of OUTPUT as one partition's part of the batch, unless they are there."""
        in_doubt = self.context.in_doubt and any(row["wrote_before"] for row in outputs)
        writer = writer_for(self.plan, partition, self.context, in_doubt=in_doubt)
        if writer is None:  # an earlier attempt wrote this batch
            return
        with writer.batch(self.context.batch, self.context.query):
            for row in outputs:
                _produce(writer, row["topic"], from_ipc(row["rows"]), self.plan)


def _partition_id() -> int:
    from pyspark import TaskContext  # noqa: PLC0415  (only a worker has one)

    task = TaskContext.get()
    assert task is not None  # noqa: S101  (Spark runs this in a task)
    return int(task.partitionId())


def _produce(writer: Writer, topic: str, table: pa.Table, plan: Plan) -> None:
    """Write a table (see `streaming.arrow.output`) to a topic."""
    columns = {name: flat(table[name]) for name in table.column_names}
    added = [
        (plan.headers(name.removeprefix(HEADER)), _each(column, _texts))
        for name, column in columns.items()
        if name not in RECORD_COLUMNS
    ]
    if "partition" in columns:
        partitions = columns["partition"].to_pylist()
    else:
        count = writer.partitions(topic)
        partitions = _each(columns["key"], partial(_partitions, count=count))
    timed = "timestamp" in columns
    writer.produce_all(
        topic,
        _each(columns["key"], _objects),
        _each(columns["value"], _objects),
        _with_headers(columns["headers"], added),
        _each(columns["timestamp"], _objects) if timed else [0] * len(table),
        partitions,
    )


def _each(column: pa.Array, convert: Callable[[pa.Array], list[Any]]) -> list[Any]:
    """The column as Python objects; what a dictionary has once is converted once, and shared."""
    if not pa.types.is_dictionary(column.type):
        return convert(column)
    known = convert(column.dictionary)
    return [known[at] for at in column.indices.to_pylist()]


def _partitions(keys: pa.Array, count: int) -> list[int]:
    """Where records go; those without a key go where an empty key would."""
    partitions: list[int] = partitions_of(keys.fill_null(b""), count).tolist()
    return partitions


def _texts(column: pa.Array) -> list[bytes | None]:
    if not pa.types.is_binary(column.type):
        column = column.cast(pa.string()).cast(pa.binary())
    return _objects(column)


def _objects(column: pa.Array) -> list[Any]:
    """Python objects of a column; by way of numpy, which is several times faster than to_pylist."""
    return list(column.to_numpy(zero_copy_only=False).tolist())


def _with_headers(
    headers: pa.Array, added: list[tuple[str, list[bytes | None]]]
) -> Sequence[list[tuple[str, bytes | None]] | None]:
    """Each row's own headers, then the added ones, as lists of pairs."""
    if headers.null_count == len(headers) and not added:
        return [None] * len(headers)
    tails: Iterable[Any]
    if any(None in values for _, values in added):
        columns = [[() if v is None else ((name, v),) for v in values] for name, values in added]
        tails = (list(chain.from_iterable(each)) for each in zip(*columns, strict=True))
    elif added:
        tails = zip(*([(name, value) for value in values] for name, values in added), strict=True)
    else:
        tails = repeat((), len(headers))
    own = _each(headers, _pairs)
    return [[*pairs, *tail] for pairs, tail in zip(own, tails, strict=True)]


def _pairs(headers: pa.Array) -> list[list[tuple[str, bytes | None]]]:
    """The headers of each row; none where they are null."""
    first, stop = (headers.offsets[0].as_py(), headers.offsets[-1].as_py())
    array = headers.values.slice(first, stop - first)
    names = array.field("key").dictionary_encode()
    known = names.dictionary.to_pylist()
    keys = [known[code] for code in names.indices.to_pylist()]
    pairs = list(zip(keys, _objects(array.field("value")), strict=True))
    bounds = (headers.offsets.to_numpy() - first).tolist()
    if not headers.null_count:
        return [pairs[a:b] for a, b in pairwise(bounds)]
    null = headers.is_null().to_pylist()
    return [[] if none else pairs[a:b] for (a, b), none in zip(pairwise(bounds), null, strict=True)]
