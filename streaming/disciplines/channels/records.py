"""Ingress of channels: records, packed into one Arrow body for each shard.

Commands travel among the records, to the shards that they concern.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sequencer.channels import Op
from streaming.arrow.columns import flat, last_headers, plain
from streaming.arrow.kafka_rows import KAFKA_ROW, RECORD_COLUMNS
from streaming.arrow.pack import pack_by_shard, packs_of
from streaming.arrow.schemas import RECORD
from streaming.disciplines.channels.commands import read_request
from streaming.disciplines.channels.fields import (
    NO_SCHEMAS,
    Fields,
    fields_of,
    need_schemas,
    with_fields,
)
from streaming.disciplines.channels.plan import ChannelPlan
from streaming.disciplines.channels.sql import COLUMNS, expand_headers, has_expressions, header_name
from streaming.disciplines.plan import batch_context
from streaming.disciplines.shards import no_shares
from streaming.disciplines.source import Packs
from streaming.disciplines.state_keys import shard_keys, shards_of
from streaming.errors import ConfigError
from streaming.values.schemas import Schemas
from streaming.wire.blocks import blocked, with_large

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streaming.disciplines.source import Source

CHANNEL_RECORD = RECORD.append(pa.field("channel", pa.binary()))
"""The schema of held records if the channel is not the key."""

ARRIVAL = [pa.field("label", pa.binary()), pa.field("epoch", pa.binary())]
ARRIVAL += [pa.field("fin", pa.bool_())]
"""Further columns of a pack's rows: the label and the header `epoch`, null if there is none, and
whether there is a header `fin`."""


def record_schema(plan: ChannelPlan) -> pa.Schema:
    """Return the schema of the records that a shard of this pipeline holds."""
    return RECORD if plan.keyed else CHANNEL_RECORD


def arrival_schema(plan: ChannelPlan) -> pa.Schema:
    """Return the schema of the rows of packs."""
    return pa.schema([*record_schema(plan), *ARRIVAL])


def pack(source: Source, plan: ChannelPlan) -> Packs:
    """Return the source's records as packs: ``shard int, rows binary``."""
    keys, tasks = shard_keys(plan.shards, plan.state_partitions), plan.state_partitions
    making = partial(
        make_packs,
        keys=keys,
        schema=arrival_schema(plan),
        label=header_name(plan.label),
        inputs=len(plan.inputs),
        fields=fields_of(plan.channel, plan.label),
        ops=plan.ops,
        blocks=plan.has_blocks,
    )
    if not has_expressions(plan.channel, plan.label):
        return source.packs(plan.reads, plan.reads, making, tasks, keys=keys)
    rows = packs_of(with_expressions(source.rows(plan.reads, tasks), plan), making)
    return Packs(rows, no_shares)


def understand(session: SparkSession, plan: ChannelPlan) -> None:
    """ConfigError if Spark does not understand a SQL expression of the plan."""
    if has_expressions(plan.channel, plan.label):
        with_expressions(session.createDataFrame([], KAFKA_ROW), plan)


def with_expressions(records: DataFrame, plan: ChannelPlan) -> DataFrame:
    """Return the records' columns, with the values of the plan's expressions."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415  (a second to import)

    columns = [*RECORD_COLUMNS]
    if isinstance(plan.channel, str) and not plan.keyed:
        columns.append(f"{_as_binary(records, plan.channel, plan, 'channel')} as channel")
    if isinstance(plan.label, str) and header_name(plan.label) is None:
        columns.append(f"{_as_binary(records, plan.label, plan, 'label')} as label")
    try:
        return records.selectExpr(*columns)
    except AnalysisException as error:
        raise _not_understood(plan, "channel or label", error) from None


def _as_binary(source: DataFrame, expression: str, plan: ChannelPlan, key: str) -> str:
    """Return the SQL expression cast to bytes: text as UTF-8, numbers as decimal text."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415  (a second to import)

    expanded = expand_headers(expression, null="null" if key == "channel" else "''")
    try:
        found = source.selectExpr(f"struct(({expanded})) as it")  # so that it gives one row each
        kind = found.schema["it"].dataType[0].dataType.typeName()
    except AnalysisException as error:
        raise _not_understood(plan, key, error) from None
    if kind == "binary":
        return f"({expanded})"
    return f"cast(cast(({expanded}) as string) as binary)"


def _not_understood(plan: ChannelPlan, key: str, error: Any) -> ConfigError:
    why = (error.getMessage() or "").splitlines()
    return ConfigError(
        f"pipelines.{plan.pipeline}.{key}: Spark does not understand {str(plan.channel)!r} and "
        f"{str(plan.label)!r}: {why[0] if why else 'no reason given'}",
        "Nothing was started.",
        "Write Spark SQL expressions that give one value for each record, over "
        f"{', '.join(COLUMNS)} and header('name').",
    )


def make_packs(  # noqa: PLR0913  (what of a plan concerns packs, each by its name)
    records: pa.Table,
    keys: list[int],
    schema: pa.Schema,
    label: str | None,
    inputs: int,
    *,
    fields: Fields | None = None,
    ops: Sequence[Op] = tuple(Op),
    blocks: bool = False,
    large_rows: str = "",
) -> pa.RecordBatch:
    """Make packs (PACKED) of records (RECORD, with the columns of ``schema`` that SQL computed).

    ``fields``: those read from values. ``ops``: the allowed commands. ``blocks``: large values are
    compressed as they will be in Kafka (`streaming.wire.blocks`). ``large_rows``: see
    `pack_by_shard`.
    """
    fields = fields or {}
    schemas = Schemas.of(batch_context().decisions) if need_schemas(fields) else NO_SCHEMAS
    records = with_fields(records, fields, inputs, schemas)
    channels = flat(records["channel" if "channel" in schema.names else "key"])
    shard = shards_of(channels, len(keys))
    rows, shard = with_commands(labelled(records, schema, label), shard, inputs, len(keys), ops)
    values = blocked if blocks and with_large(rows) else with_values
    return pack_by_shard(rows, shard, keys, values, large_rows=large_rows)


def with_commands(
    rows: pa.Table,
    shard: NDArray[np.int32],
    inputs: int,
    shards: int,
    ops: Sequence[Op] = tuple(Op),
) -> tuple[pa.Table, NDArray[np.int32]]:
    """Return the rows with their shards; a command is repeated for each shard that it concerns.

    Commands are the rows of topics behind the ``inputs``; SQL cannot compute their shards.
    """
    commands = np.flatnonzero(rows["topic"].to_numpy() >= inputs)
    if not len(commands):
        return rows, shard
    commands_given = rows.take(pa.array(commands))
    spread = (commands_given["partition"].to_numpy() + commands_given["offset"].to_numpy()).tolist()
    targets = []
    for value, at in zip(commands_given["value"].to_pylist(), spread, strict=True):
        target = read_request(value, ops).shard(shards, at)
        targets.append(list(range(shards)) if target is None else [target])
    records = np.delete(np.arange(len(rows)), commands)
    row = np.concatenate(
        [records, np.repeat(commands, [len(shard_list) for shard_list in targets])]
    )
    shard = np.concatenate([shard[records], np.array([*chain.from_iterable(targets)], np.int32)])
    return rows.take(pa.array(row)), shard


def with_values(rows: pa.Table) -> pa.Table:
    """Return the rows with their values as bytes; the reader gives a dictionary, without a copy."""
    at = rows.schema.get_field_index("value")
    return rows.set_column(at, rows.schema.field(at).name, plain(flat(rows["value"])))


def labelled(table: pa.Table, schema: pa.Schema, label: str | None) -> pa.Table:
    """Return the table with its ARRIVAL columns, in ``schema``; ``label``: see `header_name`.

    Values stay unchanged (see :func:`with_values`).
    """
    names = ("epoch", "fin") if label is None else ("epoch", "fin", label)
    (epoch, has_epoch), (_, fin), *values = last_headers(flat(table["headers"]), names)
    added = {"epoch": _blank_where(epoch, has_epoch), "fin": pa.array(fin)}
    if values:
        added["label"] = _blank_where(*values[0])
    columns = [added[name] if name in added else table[name] for name in schema.names]
    values = table.schema.field("value")
    kinds = [values if each.name == "value" else each for each in schema]
    return pa.table(columns, names=schema.names).cast(pa.schema(kinds))


def _blank_where(values: pa.Array, present: NDArray[np.bool_]) -> pa.Array:
    """Make null values of present headers empty, so that null means that there is no header."""
    if values.null_count == len(values) - int(present.sum()):
        return values
    return pc.if_else(pa.array(present), pc.fill_null(values, b""), pa.scalar(None, values.type))
