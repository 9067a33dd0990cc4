"""Where a pipeline's records come from: Spark's Kafka source, as every query wants it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_MAX = "maxOffsetsPerTrigger"
FETCH_WAIT, FETCH_WAIT_MS = "kafka.fetch.max.wait.ms", "5"
"""How long the broker keeps a request for more than there is. Behind a range of offsets Spark asks
where the partition ends, on the same connection, and the answer waits for that request: by default
500 ms, in each partition, wherever a batch reads up to the end."""


@dataclass(frozen=True, slots=True)
class Source:
    """Spark's Kafka source with a pipeline's options; ``options[BATCH_MAX]`` limits a batch."""

    spark: SparkSession
    options: dict[str, str]

    def records(self, topics: Sequence[str], *, limited: bool = True) -> DataFrame:
        """The topics' records with their headers, read_committed, from the beginning."""
        options = {
            name: value for name, value in self.options.items() if limited or name != BATCH_MAX
        }
        return (
            self.spark.readStream.format("kafka")
            .options(**{FETCH_WAIT: FETCH_WAIT_MS, **options})
            .option("subscribe", ",".join(topics))
            .option("includeHeaders", "true")
            .option("startingOffsets", "earliest")
            .option("failOnDataLoss", "true")
            .option("kafka.isolation.level", "read_committed")
            .load()
        )

    def ticks(self) -> DataFrame:
        """No packs, but something new every second, so that batches run and timers fire when idle.

        Spark's own batches without data do not begin before the first batch with data after a
        start, and then follow each other without a pause.
        """
        ticks = self.spark.readStream.format("rate").options(rowsPerSecond=1, numPartitions=1)
        return (
            ticks.load()
            .where("value < 0")
            .selectExpr("cast(value as int) as shard", "cast('' as binary) as rows")
        )
