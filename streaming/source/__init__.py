"""The service's own way from Kafka: record batches read by Python's workers, packed for shards.

`fetching` asks brokers; `ranges` says what a batch reads, and which task; `reader` returns that to
the driver, and to workers; `pacing` says when a batch begins, `waiting` waits for records.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from streaming.arrow.pack import PACKED
from streaming.disciplines.source import Limits, Reading, Source
from streaming.disciplines.state_keys import shard_keys
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
    return Source(spark, limits, frame, partial(_ticks, spark, plan, pace), pace.ended)


def _frame(
    spark: SparkSession,
    plan: Plan,
    pace: Pace,
    accepted: Acceptance | None,
    reading: Reading,
) -> DataFrame:
    from streaming.source.reader import Inputs, KafkaReader, rows_of_shares  # noqa: PLC0415
    from streaming.spark.stream import frame_of  # noqa: PLC0415  (PySpark's)

    inputs = Inputs(topics=reading.topics, properties=plan.producer)
    reader = KafkaReader(inputs, reading.limits, reading.tasks, accepted, pace)
    read = partial(rows_of_shares, inputs=inputs, schema=reading.schema, making=reading.making)
    name = f"{plan.pipeline}: {', '.join(reading.topics)}"
    return frame_of(spark, name, reading.rows, reader, read, pace.ended)


def _ticks(spark: SparkSession, plan: Plan, pace: Pace) -> DataFrame:
    from streaming.source.reader import Ticks, waking  # noqa: PLC0415
    from streaming.spark.stream import frame_of  # noqa: PLC0415

    keys = shard_keys(plan.shards, plan.state_partitions)
    ticks, name = Ticks(keys, pace), f"{plan.pipeline}: ticks"
    return frame_of(spark, name, PACKED, ticks, waking, pace.ended)
