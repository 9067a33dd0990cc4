"""The service's own way from Kafka: record batches read by Python's workers, packed for shards.

`fetching` asks brokers; `ranges` says what a batch reads, and which task; `reader` returns that to
the driver, and to workers; `pacing` says when a batch begins, `waiting` waits for records.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from streaming.arrow.pack import PACKED
from streaming.disciplines.source import Limits, Read, Reading, Source
from streaming.disciplines.state_keys import by_partition, shard_keys
from streaming.source.pacing import Pace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streaming.disciplines.plan import Plan
    from streaming.source.losses import Acceptance


def source_of(
    spark: SparkSession,
    plan: Plan,
    limits: Limits,
    accepted: Acceptance | None = None,
    pace: Pace | None = None,
) -> Source:
    """Where a pipeline's records come from; ``limits``: of its inputs in a batch.

    ``accepted``: losses of input. ``pace``: when batches begin.
    """
    pace = pace or Pace()
    frame = partial(_frame, spark, plan, pace, accepted)
    ticks = partial(_ticks, spark, plan, pace)
    return Source(spark, limits, frame, partial(_read, plan), ticks, pace.ended)


def _frame(
    spark: SparkSession,
    plan: Plan,
    pace: Pace,
    accepted: Acceptance | None,
    reading: Reading,
) -> DataFrame:
    from streaming.source.reader import KafkaReader, inputs_of, rows_of_shares  # noqa: PLC0415
    from streaming.spark.stream import frame_of  # noqa: PLC0415  (PySpark's)

    reader = KafkaReader(inputs_of(plan, reading), reading, accepted, pace)
    making: Any = reading.making
    if plan.large_rows:
        making = partial(making, large_rows=plan.large_rows)
    read = partial(rows_of_shares, read=_read(plan, reading._replace(making=making)))
    name = f"{plan.pipeline}: {', '.join(reading.topics)}"
    keys = by_partition(reading.keys, reading.tasks)
    return frame_of(spark, name, reading.rows, reader, pace.ended, keys, read)


def _read(plan: Plan, reading: Reading) -> Read:
    from streaming.source.reader import inputs_of, rows_of_share  # noqa: PLC0415

    inputs, schema, making = inputs_of(plan, reading), reading.schema, reading.making
    return partial(rows_of_share, inputs=inputs, schema=schema, making=making)


def _ticks(spark: SparkSession, plan: Plan, pace: Pace) -> DataFrame:
    from streaming.source.reader import Ticks  # noqa: PLC0415
    from streaming.spark.stream import frame_of  # noqa: PLC0415

    keys = by_partition(shard_keys(plan.shards, plan.state_partitions), plan.state_partitions)
    return frame_of(spark, f"{plan.pipeline}: ticks", PACKED, Ticks(pace), pace.ended, keys)
