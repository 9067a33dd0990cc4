"""Source and ingress: rows of the Kafka source, packed into one Arrow body for each shard.

Spark shuffles and sorts a few large rows instead of every message, and payloads never become
Python objects on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from streaming.columns import HEADERS, flat, last_headers
from streaming.errors import ConfigError
from streaming.ipc import to_body
from streaming.plan import ChannelPlan, Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PACKED = "shard int, rows binary"
PACK_BYTES_MAX = 64 * 2**20
"""A pack is cut when its rows reach this size, so that no row nears Arrow's 2 GiB."""

RECORD = pa.schema(
    [
        ("topic", pa.int32()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
"""An input record while it is on its way: ``topic`` is a place in the plan's `reads`, ``timestamp``
in ms."""

CHANNEL_RECORD = RECORD.append(pa.field("channel", pa.binary()))
"""The same where the channel is not the key."""

ARRIVAL = [pa.field("label", pa.binary()), pa.field("epoch", pa.binary())]
ARRIVAL += [pa.field("fin", pa.bool_())]
"""What a pack's rows have besides: of the label and the header `epoch`, null where there is none,
and whether there is a header `fin`."""

HEADER_CALL = re.compile(r"\bheader\(\s*'((?:[^'\\]|\\.)*)'\s*\)")
HEADER_SQL = (
    "nvl2(element_at(filter(headers, h -> h.key = '{0}'), -1), "
    "coalesce(cast(element_at(filter(headers, h -> h.key = '{0}'), -1).value as string), {1}), "
    "cast(null as string))"
)
"""Text of the last header; null where there is none, {1} where its value is null."""


def header_name(expression: str) -> str | None:
    """The header's name where the expression is just ``header('name')``."""
    match = HEADER_CALL.fullmatch(expression.strip())
    return match.group(1) if match else None


def expand_headers(expression: str, null: str = "''") -> str:
    """The SQL expression with every ``header('name')`` written out.

    ``null``: what a header with a null value is. Of a label that is another fault than no header.
    """
    return HEADER_CALL.sub(lambda call: HEADER_SQL.format(call.group(1), null), expression)


def record_schema(plan: ChannelPlan) -> pa.Schema:
    """Schema of the records that a shard of this pipeline holds."""
    return RECORD if plan.keyed else CHANNEL_RECORD


def arrival_schema(plan: ChannelPlan) -> pa.Schema:
    """Schema of the rows of packs."""
    return pa.schema([*record_schema(plan), *ARRIVAL])


def source_columns(plan: Plan) -> list[str]:
    """SQL for what every record brings: where it was, its time, key, value and headers."""
    topic = " ".join(f"when '{name}' then {at}" for at, name in enumerate(plan.reads))
    return [
        f"cast(case topic {topic} end as int) as topic",
        "partition",
        "offset",
        "unix_millis(timestamp) as timestamp",
        "key",
        "value",
        "headers",
    ]


def pack(source: DataFrame, plan: ChannelPlan) -> DataFrame:
    """Rows of Spark's Kafka source (with headers) as packs: ``shard int, rows binary``.

    Raises ConfigError where a SQL expression of the plan cannot be understood.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415  (a second to import)

    channel = "key" if plan.keyed else _as_binary(source, plan.channel, plan, "channel")
    shard = f"cast(pmod(xxhash64({channel}), {plan.shards}) as int) as shard"
    columns = [shard, *source_columns(plan)]
    if not plan.keyed:
        columns.append(f"{channel} as channel")
    if header_name(plan.label) is None:
        columns.append(f"{_as_binary(source, plan.label, plan, 'label')} as label")
    keys = shard_keys(plan.shards, plan.state_partitions)
    # A task costs some 30 ms however little it does, so there are as many as there is work for.
    task = partial(
        _pack_task, keys=keys, schema=arrival_schema(plan), label=header_name(plan.label)
    )
    try:
        rows = source.selectExpr(*columns)
    except AnalysisException as error:
        raise _not_understood(plan, "channel or label", error) from None
    return rows.coalesce(plan.state_partitions).mapInArrow(task, PACKED)


def _as_binary(source: DataFrame, expression: str, plan: ChannelPlan, key: str) -> str:
    """The SQL expression as bytes: text as UTF-8, numbers as decimal text."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415  (a second to import)

    expanded = expand_headers(expression, null="null" if key == "channel" else "''")
    try:
        kind = source.selectExpr(f"({expanded}) as it").schema["it"].dataType.typeName()
    except AnalysisException as error:
        raise _not_understood(plan, key, error) from None
    if kind == "binary":
        return f"({expanded})"
    return f"cast(cast(({expanded}) as string) as binary)"


def _not_understood(plan: ChannelPlan, key: str, error: Any) -> ConfigError:
    why = (error.getMessage() or "").splitlines()
    return ConfigError(
        f"pipelines.{plan.pipeline}.{key}: Spark does not understand {plan.channel!r} and "
        f"{plan.label!r}: {why[0] if why else 'no reason given'}",
        "The pipeline was not started.",
        "Write Spark SQL expressions that give one value for each record, over key, value, topic, "
        "partition, offset, timestamp, headers and header('name').",
    )


def _pack_task(
    batches: Iterator[pa.RecordBatch], keys: list[int], schema: pa.Schema, label: str | None
) -> Iterator[pa.RecordBatch]:
    for table in in_packs(batches):
        yield _pack_rows(table, keys, schema, label)


def in_packs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """A task's rows in tables that are large, but no larger than need be."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if len(batch):
            waiting.append(batch)
        size += batch.nbytes
        if size >= PACK_BYTES_MAX:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def packed(shards: NDArray[Any], packs: list[bytes], keys: list[int]) -> pa.RecordBatch:
    """Rows of PACKED: the packs of some shards under their state keys."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([keys[each] for each in shards.tolist()], pa.int32()),
            pa.array(packs, pa.binary()),
        ],
        names=["shard", "rows"],
    )


def _pack_rows(
    table: pa.Table, keys: list[int], schema: pa.Schema, label: str | None
) -> pa.RecordBatch:
    shard = flat(table["shard"]).to_numpy().astype(np.uint16)
    order = np.argsort(shard, kind="stable")  # 16-bit: a radix sort
    rows = labelled(table, schema, label).take(pa.array(order)).combine_chunks().to_batches()[0]
    present, first = np.unique(shard[order], return_index=True)
    bounds = [*first.tolist(), len(shard)]
    packs = [to_body(rows.slice(start, stop - start)) for start, stop in pairwise(bounds)]
    return packed(present, packs, keys)


def labelled(table: pa.Table, schema: pa.Schema, label: str | None) -> pa.Table:
    """The table with its ARRIVAL columns, in ``schema``; ``label`` as in :func:`header_name`."""
    names = ("epoch", "fin") if label is None else ("epoch", "fin", label)
    (epoch, given), (_, fin), *found = last_headers(flat(table["headers"]), names)
    added = {"epoch": _blank_where(epoch, given), "fin": pa.array(fin)}
    if found:
        added["label"] = _blank_where(*found[0])
    columns = [added[name] if name in added else table[name] for name in schema.names]
    return pa.table(columns, names=schema.names).cast(schema)


def _blank_where(values: pa.Array, present: NDArray[np.bool_]) -> pa.Array:
    """A header that is there but null reads as an empty one; null then means there is none."""
    if values.null_count == len(values) - int(present.sum()):
        return values
    return pc.if_else(pa.array(present), pc.fill_null(values, b""), pa.scalar(None, values.type))


def shard_keys(shards: int, partitions: int) -> list[int]:
    """For each shard a state key that Spark's hash partitioning sends to ``shard % partitions``.

    Spark spreads few keys unevenly; keys chosen by their hash give each state partition its share.
    """
    candidate = 0
    wanted: dict[int, list[int]] = {at: [] for at in range(partitions)}
    per_partition = -(-shards // partitions)
    while any(len(found) < per_partition for found in wanted.values()):
        found = wanted[_spark_hash_int(candidate) % partitions]
        if len(found) < per_partition:
            found.append(candidate)
        candidate += 1
    return [wanted[shard % partitions][shard // partitions] for shard in range(shards)]


def _spark_hash_int(value: int, seed: int = 42) -> int:
    """Spark's Murmur3 (x86, 32 bit) hash of an int, signed: what HashPartitioning takes modulo."""
    mask = 0xFFFFFFFF

    def rotate(number: int, by: int) -> int:
        return (number << by | number >> (32 - by)) & mask

    k = rotate(value * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (rotate(seed ^ k, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
