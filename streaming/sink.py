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

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa

from sequencer.channels import REASONS
from streaming.columns import flat, partitions_of
from streaming.faults import fault_point
from streaming.pack import from_ipc
from streaming.plan import BatchContext, ChannelPlan
from streaming.writer import Writer, writer_for

SUMMARY = "partition int, shard int, totals string, wrote boolean"


@dataclass(frozen=True, slots=True)
class Sink:
    """The function that Spark runs over a state partition's output rows."""

    plan: ChannelPlan
    context: BatchContext

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write one partition of a batch; yields rows of SUMMARY."""
        rows = [row for batch in batches for row in batch.to_pylist()]
        if not rows:
            return
        partition = _partition_id()
        outputs = [row for row in rows if row["deliveries"] or row["rejects"] or row["events"]]
        fault_point("2-3")
        if outputs:
            self._write(partition, outputs)
        yield pa.RecordBatch.from_pydict(
            {
                "partition": pa.array([partition] * len(rows), pa.int32()),
                "shard": pa.array([row["shard"] for row in rows], pa.int32()),
                "totals": [row["totals"] for row in rows],
                "wrote": [bool(outputs)] * len(rows),
            }
        )

    def _write(self, partition: int, outputs: list[dict[str, Any]]) -> None:
        in_doubt = self.context.in_doubt and any(row["wrote_before"] for row in outputs)
        writer = writer_for(self.plan, partition, self.context, in_doubt=in_doubt)
        if writer is None:  # an earlier attempt wrote this batch
            return
        with writer.batch(self.context.batch, self.context.query):
            for row in outputs:
                _deliver(writer, row["deliveries"], self.plan)
                _reject(writer, row["rejects"], self.plan)
                _announce(writer, row["events"], self.plan)


def _partition_id() -> int:
    from pyspark import TaskContext  # noqa: PLC0415  (only a worker has one)

    task = TaskContext.get()
    assert task is not None  # noqa: S101  (Spark runs this in a task)
    return int(task.partitionId())


def _deliver(writer: Writer, blob: bytes, plan: ChannelPlan) -> None:
    if not blob:
        return
    table = from_ipc(blob)
    added = [(plan.headers("sequence"), table["sequence"])]
    added.append((plan.headers("incarnation"), table["incarnation"]))
    texts = [
        (name, _objects(flat(column).cast(pa.string()).cast(pa.binary()))) for name, column in added
    ]
    headers = _with_headers(flat(table["headers"]), texts)
    writer.produce_all(
        plan.output,
        _objects(flat(table["key"])),
        _objects(flat(table["value"])),
        headers,
        flat(table["timestamp"]).to_pylist(),
        flat(table["partition_out"]).to_pylist(),
    )


def _reject(writer: Writer, blob: bytes, plan: ChannelPlan) -> None:
    if not blob:
        return
    table = from_ipc(blob)
    reasons = [text.encode() for text in REASONS]
    added = [
        ("reject-reason", [reasons[each] for each in table["reason"].to_pylist()]),
        ("reject-topic", [plan.inputs[each].encode() for each in table["topic"].to_pylist()]),
        ("reject-partition", [b"%d" % each for each in table["partition"].to_pylist()]),
        ("reject-offset", [b"%d" % each for each in table["offset"].to_pylist()]),
    ]
    headers = _with_headers(
        flat(table["headers"]), [(plan.headers(name), values) for name, values in added]
    )
    keys = flat(table["key"])
    filled = keys.fill_null(b"")  # records without a key go where an empty key would
    writer.produce_all(
        plan.rejects,
        _objects(keys),
        _objects(flat(table["value"])),
        headers,
        flat(table["timestamp"]).to_pylist(),
        partitions_of(filled, plan.partitions[plan.rejects]).tolist(),
    )


def _announce(writer: Writer, blob: str, plan: ChannelPlan) -> None:
    if not blob:
        return
    events = json.loads(blob)
    keys = [bytes.fromhex(event["key"]) for event in events]
    values = [json.dumps(event["value"], ensure_ascii=False).encode() for event in events]
    partitions = partitions_of(pa.array(keys, pa.binary()), plan.partitions[plan.events])
    writer.produce_all(
        plan.events, keys, values, [None] * len(events), [0] * len(events), partitions.tolist()
    )


def _objects(column: pa.Array) -> list[Any]:
    """Python objects of a column; by way of numpy, which is several times faster than to_pylist."""
    return list(column.to_numpy(zero_copy_only=False).tolist())


def _with_headers(
    headers: pa.Array, added: list[tuple[str, list[bytes]]]
) -> list[list[tuple[str, bytes | None]]]:
    """Each row's own headers, then the added ones, as lists of pairs."""
    first, stop = (headers.offsets[0].as_py(), headers.offsets[-1].as_py())
    pairs_array = headers.values.slice(first, stop - first)
    names = pairs_array.field("key").dictionary_encode()
    known = names.dictionary.to_pylist()
    keys = [known[code] for code in names.indices.to_pylist()]
    pairs = list(zip(keys, _objects(pairs_array.field("value")), strict=True))
    tails = zip(*([(name, value) for value in values] for name, values in added), strict=True)
    bounds = (headers.offsets.to_numpy() - first).tolist()
    if headers.null_count:
        null = headers.is_null().to_pylist()
        spans = [
            (a, a if none else b) for a, b, none in zip(bounds, bounds[1:], null, strict=False)
        ]
    else:
        spans = list(pairwise(bounds))
    return [[*pairs[a:b], *tail] for (a, b), tail in zip(spans, tails, strict=True)]
